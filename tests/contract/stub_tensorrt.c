/* Every symbol that the TensorRT bindings need of their libraries, answering nothing: enough to import and look at them. */

#define ANSWERS_NOTHING(name)                                                                                          \
    void *name(void) { return 0; }

ANSWERS_NOTHING(createInferBuilder_INTERNAL)
ANSWERS_NOTHING(createInferRefitter_INTERNAL)
ANSWERS_NOTHING(createInferRuntime_INTERNAL)
ANSWERS_NOTHING(createNvOnnxParser_INTERNAL)
ANSWERS_NOTHING(createNvOnnxParserRefitter_INTERNAL)
ANSWERS_NOTHING(getNvOnnxParserVersion)
ANSWERS_NOTHING(getBuilderPluginRegistry)
ANSWERS_NOTHING(getPluginRegistry)
ANSWERS_NOTHING(initLibNvInferPlugins)

/* Parsers for formats that went with 10, by their C++ names. */
ANSWERS_NOTHING(_ZN11nvuffparser15createUffParserEv)
ANSWERS_NOTHING(_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi)
ANSWERS_NOTHING(_ZN14nvcaffeparser117createCaffeParserEv)
ANSWERS_NOTHING(_ZN14nvcaffeparser123shutdownProtobufLibraryEv)
