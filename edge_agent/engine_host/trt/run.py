"""Runs on one execution context: told its shapes and addresses, started plainly or as a CUDA graph."""

import collections

from edge_agent.engine_host.failures import RunFailed
from edge_agent.engine_host.trt import failures, profiles
from edge_agent.engine_host.trt.graphs import Graphs, GraphsFailed
from edge_agent.engine_host.trt.logger import Hearing

_MAX_REMEMBERED = 256
_MAX_REFUSED = 64  # runs in a row; then it is not the sizes


class Runs:
    """What one execution context was told, so that nothing is told twice. Its instance's thread alone uses it."""

    def __init__(self, library, loaded, context, label, graphs, usable):
        self._log = library.log
        self._profiles = usable
        self._context = context
        self._inputs = [tensor for tensor in loaded.tensors if tensor.is_input]
        self._outputs = [tensor for tensor in loaded.tensors if not tensor.is_input]
        self._fixed = all(dim >= 0 for tensor in self._inputs for dim in tensor.shape)
        self._by_value = any(tensor.on_host for tensor in self._inputs)
        self._label = label
        # Only a plan's first context has a profile by itself, unless neither sizes nor their values are open.
        self._profile = 0 if self._fixed and not self._by_value else None
        self._shapes = None
        self._addresses = {}
        self._allocators = {}
        self._make_allocator = library.output_allocator
        self._remembered = collections.OrderedDict()  # (profile, shapes): shapes of the outputs
        self._has_run = False  # plainly, as it is told now
        self._proven = collections.OrderedDict()  # (profile, shapes) that have run
        self._refused_n = 0  # runs in a row
        self._moves = {}  # of each set, as its graphs know it
        self.graphs = Graphs(library.native, label)
        self.graphs.on = self.graphs.on and graphs and not self._by_value

    @property
    def profile(self):
        """The profile of the last run."""
        return self._profile

    def choose(self, shapes, may_pad):
        """(index of the profile for these shapes of the inputs, by name, rows that it must have; None: as they come).

        RunFailed when no profile takes them.
        """
        index = profiles.pick(self._profiles, shapes, self._profile)
        if index is not None:
            return index, None
        found = profiles.pad(self._profiles, shapes) if may_pad else None
        if found is None:
            raise RunFailed(profiles.why_not(self._profiles, shapes))
        return found

    def configure(self, index, shapes, stream, buffers):
        """Tells profile and shapes; answers the outputs' shapes by name. RunFailed when TensorRT refuses one."""
        if index != self._profile:
            self._change_profile(index, stream)
        told = tuple(shapes[tensor.name] for tensor in self._inputs)
        if told != self._shapes or self._by_value:
            self._before_change(stream)
            self._shapes = None  # until all of them are told
            self._tell_shapes(shapes, buffers)
            self._shapes = told
        found = None if self._by_value else self._remembered.get((index, told))
        if found is None:
            found = self._output_shapes(shapes)
            _remember(self._remembered, (index, told), found)
        return found

    def _before_change(self, stream):
        """No graph of the context may be under way while it is told something else, nor be launched after that."""
        self._has_run = False
        if len(self.graphs):
            stream.synchronize()
        self.graphs.drop()

    def _change_profile(self, index, stream):
        self._before_change(stream)
        self._profile = self._shapes = None
        self._addresses.clear()
        with Hearing(self._log) as heard:
            try:
                changed, why = self._context.set_profile(index, stream.handle), ""
            except RuntimeError as error:  # this one call raises where others answer False
                changed, why = False, str(error)
            if not changed:
                raise RunFailed("TensorRT does not change to profile %d: %s" % (index, why or heard.words))
        stream.synchronize()  # neither the old nor the new profile's memory is in use after it
        self._profile = index

    def _tell_shapes(self, shapes, buffers):
        with Hearing(self._log) as heard:
            for tensor in self._inputs:
                if tensor.on_host:  # its values are read when shapes are asked for
                    self._tell_address(tensor, buffers[tensor.name].host)
                if not self._fixed and not self._context.set_shape(tensor, shapes[tensor.name]):
                    text = "TensorRT refuses shape %s of input '%s': %s"
                    raise RunFailed(text % (list(shapes[tensor.name]), tensor.name, heard.words))
            if not self._fixed and not self._context.all_told():
                raise RunFailed("TensorRT misses the size of an input: %s" % heard.words)
        if self._by_value:
            self._look_at_values(shapes)

    def _look_at_values(self, shapes):
        self._output_shapes(shapes)  # where it finds none, the question that follows may end the process
        with Hearing(self._log) as heard:
            try:
                missing = self._context.missing()
            except RuntimeError as error:
                raise RunFailed("TensorRT cannot run it with these values: %s; %s" % (error, heard.words)) from error
            if missing:
                raise RunFailed("TensorRT misses the values of input %s: %s" % (", ".join(missing), heard.words))

    def _output_shapes(self, shapes):
        with Hearing(self._log) as heard:
            found = {tensor.name: self._context.shape_of(tensor) for tensor in self._outputs}
            if None in found.values():
                raise RunFailed("the plan cannot run inputs of %s together: %s" % (_told(shapes), heard.words))
        return found

    def place(self, buffers, shapes):
        """Tells where all tensors lie; outputs of unknown size get an allocator. `shapes`: of the outputs."""
        for tensor in self._inputs:
            buffer = buffers[tensor.name]
            self._tell_address(tensor, buffer.host if tensor.on_host else buffer.device)
        allocators = {}
        for tensor in self._outputs:
            buffer, shape = buffers[tensor.name], shapes[tensor.name]
            if -1 in shape or tensor.name in self._allocators:
                allocators[tensor.name] = self._allocate(tensor, buffer)
                continue
            buffer.ensure(_nbytes(tensor, shape))
            self._tell_address(tensor, buffer.host if tensor.on_host else buffer.device)
        return allocators

    def _tell_address(self, tensor, pointer):
        if self._addresses.get(tensor.name) == pointer:
            return
        with Hearing(self._log) as heard:
            if not self._context.set_address(tensor, pointer):
                raise RunFailed("TensorRT refuses the memory of '%s': %s" % (tensor.name, heard.words))
        self._addresses[tensor.name] = pointer

    def _allocate(self, tensor, buffer):
        if not self._context.allocates:
            text = "the size of output '%s' depends on the data, which needs TensorRT 8.5 or later"
            raise RunFailed(text % tensor.name)
        self.graphs.on = False  # where its outputs lie may change with each run
        allocator = self._allocators.get(tensor.name)
        if allocator is None:
            allocator = self._make_allocator()
            if not self._context.set_allocator(tensor, allocator):
                raise RunFailed("TensorRT takes no memory for output '%s' while it runs" % tensor.name)
            self._allocators[tensor.name] = allocator
        allocator.begin(buffer)
        return allocator

    def start(self, buffers, stream, allocators):
        """Starts the run. It ends the process where TensorRT cannot: the context is of no use after it."""
        key, graphs = buffers.number, self.graphs
        self._forget_moved(buffers)
        try:
            if graphs.on and graphs.launch(key, stream.handle):
                return
            # TensorRT does part of its work with the first run after a change: without one a recording would lack it.
            if graphs.due(key) and self._has_run and self._record(key, stream):
                graphs.launch(key, stream.handle)
                return
        except GraphsFailed as error:
            failures.end_process("%s: %s" % (self._label, error))
        with Hearing(self._log) as heard:
            if not self._context.enqueue(stream.handle):
                self._refused(allocators, stream, heard)
        if not self._has_run:
            self._has_run = True
            _remember(self._proven, (self._profile, self._shapes), True)
        self._refused_n = 0
        if graphs.on:
            graphs.ran(key)

    def _record(self, key, stream):
        return self.graphs.record(key, stream.handle, lambda: self._context.enqueue(stream.handle))

    def _forget_moved(self, buffers):
        moves = buffers.moves
        if self._moves.get(buffers.number) != moves:
            self.graphs.forget(buffers.number)
            self._moves[buffers.number] = moves

    def _refused(self, allocators, stream, heard):
        for allocator in allocators.values():
            if allocator.failed is not None:
                raise allocator.failed
        stream.synchronize()  # raises where CUDA is broken
        if self._by_value:  # it was the sizes that the request named
            raise RunFailed("TensorRT cannot run it with these values: %s" % heard.words)
        self._refused_n += 1
        # Sizes that it has run it can run. Others may be the request's fault, which it may find out only now.
        if self._proven and (self._profile, self._shapes) not in self._proven and self._refused_n <= _MAX_REFUSED:
            raise RunFailed("the plan cannot run inputs of these sizes: %s" % heard.words)
        failures.end_process("%s: TensorRT cannot run it: %s" % (self._label, heard.words))

    def close(self):
        """Frees what it made, the context last."""
        self.graphs.clear()
        self._allocators.clear()
        self._context.close()


def _remember(known, key, value):
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)


def _told(shapes):
    return ", ".join("%s %s" % (name, list(shape)) for name, shape in sorted(shapes.items()))


def _nbytes(tensor, shape):
    count = tensor.dtype.itemsize
    for dim in shape:
        count *= dim
    return count
