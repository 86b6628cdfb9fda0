/* A libcuda.so.1 whose functions are answered by Python (fake_gpu/cuda_calls.py); 801, "not supported", where they are not. */

#include <string.h>

typedef int (*handler)(void *, void *, void *, void *, void *, void *);

#define FUNCTIONS(X)                                                                                                   \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute)      \
    X(cuDeviceTotalMem_v2) X(cuDeviceTotalMem) X(cuDeviceComputeCapability) X(cuDevicePrimaryCtxSetFlags)              \
    X(cuDevicePrimaryCtxSetFlags_v2) X(cuDevicePrimaryCtxGetState) X(cuGetErrorString) X(cuGetErrorName)               \
    X(cuStreamBeginCapture) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuStreamIsCapturing)                    \
    X(cuThreadExchangeStreamCaptureMode) X(cuGraphInstantiate) X(cuGraphInstantiate_v2)                                \
    X(cuGraphInstantiateWithFlags) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)

#define INDEX(name) at_##name,
enum { FUNCTIONS(INDEX) HOW_MANY };

#define NAME(name) #name,
static const char *const names[] = {FUNCTIONS(NAME)};
static handler handlers[HOW_MANY];

#define FUNCTION(name)                                                                                                 \
    int name(void *a, void *b, void *c, void *d, void *e, void *f) {                                                   \
        return handlers[at_##name] ? handlers[at_##name](a, b, c, d, e, f) : 801;                                      \
    }
FUNCTIONS(FUNCTION)

int fake_cuda_answer(const char *name, handler answer) {
    for (int index = 0; index < HOW_MANY; index++)
        if (strcmp(names[index], name) == 0) {
            handlers[index] = answer;
            return 1;
        }
    return 0;
}
