"""Memory for outputs whose size only the run tells: TensorRT asks for it while it runs."""


def allocator_class(trt):
    """The class; made once a library, since it derives from one of the library's."""

    class Allocator(trt.IOutputAllocator):
        """Gives one output its buffer. Nothing may be raised into the library, so what went wrong is kept."""

        def __init__(self):
            trt.IOutputAllocator.__init__(self)
            self.buffer = None
            self.shape = None
            self.failed = None

        def begin(self, buffer):
            """The run that follows writes into this buffer."""
            self.buffer, self.shape, self.failed = buffer, None, None

        def reallocate_output(self, tensor_name, memory, size, alignment):
            """Room for so many bytes; 0 where there is none."""
            try:
                self.buffer.ensure(size)
            except Exception as error:  # noqa: BLE001 - see the class
                self.failed = error
                return 0
            return self.buffer.device

        def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
            """The same, as later libraries ask."""
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name, shape):
            """The size that it came to."""
            self.shape = tuple(int(dim) for dim in shape)

    return Allocator
