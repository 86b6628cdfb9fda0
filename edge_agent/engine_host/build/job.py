"""One build from the ONNX file to the plan on the disk."""

import resource
import time

from edge_agent.engine_host.build import names, precision, profile
from edge_agent.engine_host.build.failures import lacks_implementation, lacks_memory, refused
from edge_agent.engine_host.build.network import Network
from edge_agent.engine_host.build.output import write_plan
from edge_agent.engine_host.build.progress import Steps, monitor
from edge_agent.engine_host.build.timing import TimingCache
from edge_agent.engine_host.build.tries import Tries
from edge_agent.engine_host.failures import shortened
from edge_agent.engine_host.trt.logger import Hearing

MIB = 1 << 20
_DLA_WARNING = (
    "a DLA core runs layers of one size only, the GPU does the others: give profiles with min = opt = max in [build], or "
    "max_batch_size = 1"
)


class Tools:
    """TensorRT, its logger, and what is known of the board (engine_host/trt/library.py's facts)."""

    def __init__(self, trt, log, facts):
        self.trt = trt
        self.log = log
        self.facts = facts

    def has(self, feature):
        """Whether TensorRT has a feature of names.FEATURES."""
        return names.has(self.trt, feature)

    @property
    def version(self):
        """TensorRT's own."""
        return str(self.trt.__version__)

    @property
    def board(self):
        """The GPU, for texts."""
        capability = ".".join(str(part) for part in self.facts["compute_capability"])
        return "%s (compute capability %s)" % (self.facts["device"], capability)


class Job:
    """Builds one order. Refused says why nothing came of it; then nothing is left of it but the timing cache."""

    def __init__(self, tools, order, progress):
        self._tools = tools
        self._order = order
        self._progress = progress
        self._timing = TimingCache(order.timing_cache, order.timing_temporary)
        self._warnings = []

    def run(self):
        """The fields of the report."""
        started = time.monotonic()
        order, tools = self._order, self._tools
        builder = self._builder()
        strongly_typed = precision.is_strongly_typed(tools, order.strongly_typed)
        wanted = precision.Precision(tools, order, strongly_typed)
        wanted.check_board(builder)
        self._progress.enter("parse")
        network = self._network(builder, strongly_typed)
        profiles = self._profiles(network)
        wanted.check_network(network)
        if order.dla_core >= 0 and any(sizes.min != sizes.max for one in profiles for sizes in one.values()):
            self._warnings.append(_DLA_WARNING)
        self._timing.read()
        try:
            plan, workspace = self._plan(builder, network, profiles, wanted)
        finally:
            self._timing.save()
        self._progress.enter("serialize", workspace)
        write_plan(order.output, plan)
        return {
            "precision": order.precision,
            "workspace_bytes": workspace,
            "seconds": round(time.monotonic() - started, 3),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "profiles": profile.as_json(profiles),
            "io": network.io(),
            "strongly_typed": strongly_typed,
            "warnings": self._warnings + wanted.warnings + self._timing.warnings,
        }

    def _builder(self):
        trt, log = self._tools.trt, self._tools.log
        with Hearing(log) as heard:
            try:
                if self._tools.has("plugins"):
                    trt.init_libnvinfer_plugins(log, "")
                return trt.Builder(log)
            except TypeError as error:  # pybind's way to say that the library gave none
                raise refused("build.failed", "TensorRT has no builder here: %s" % heard.words) from error

    def _network(self, builder, strongly_typed):
        try:
            with open(self._order.onnx, "rb"):
                pass  # TensorRT says of a file that it cannot open only that it could not parse it
        except OSError as error:
            raise refused("build.failed", "the model cannot be read: %s" % error) from error
        return Network(self._tools, builder, self._order.onnx, strongly_typed)

    def _profiles(self, network):
        order, inputs = self._order, network.inputs()
        shapes = [tensor.shape for tensor in inputs if not tensor.values]
        largest = profile.batch_size(order.max_batch_size, shapes, network.output_shapes())
        return profile.profiles(inputs, order.profiles, order.declared, largest, order.usual_batch_size)

    def _plan(self, builder, network, profiles, wanted):
        """(plan, workspace), after as many tries as may help."""
        order, text = self._order, ""
        can_be_lean = self._tools.has("library_tactics") and self._tools.has("workspace_size")
        tries = Tries(order.workspaces, order.larger_workspace, can_be_lean, order.memory_short)
        while True:
            with Hearing(self._tools.log) as heard:
                plan, said = self._try(builder, network, profiles, wanted, tries.workspace, tries.lean, text)
            if plan is not None:
                return plan, tries.workspace
            if wanted.misfit():
                why = "the calibration cache is not this model's, or not one of TensorRT's entropy calibration 2: %s"
                raise refused("build.precision_unsupported", why % (said or heard.words), permanent=True)
            text = self._next(tries, said, heard)

    @staticmethod
    def _next(tries, said, heard):
        """What the next try says of itself; Refused where there is none."""
        lines, words, size = ([said] if said else []) + heard.lines, said or heard.words, tries.workspace // MIB
        if lacks_memory(lines):
            if tries.after_memory():
                return "with a workspace of %d MB TensorRT ran out of memory; tried again" % size
        elif not lacks_implementation(lines):
            raise refused("build.failed", words)
        elif tries.after_implementation():
            return "with a workspace of %d MB TensorRT found no way to run a layer; tried again" % size
        elif not tries.out_of_memory:
            text = "no way to run a layer with a workspace of %d MB; a larger workspace_mb in [build] may help: %s"
            raise refused("build.failed", text % (size, words))
        raise refused("build.out_of_memory", "with a workspace of %d MB: %s" % (size, words))

    def _try(self, builder, network, profiles, wanted, workspace, lean, text):
        """(plan or None, what went wrong where TensorRT's log does not tell)."""
        steps = Steps() if self._tools.has("progress") else None
        self._progress.enter("build", workspace, text, steps)
        config = self._config(builder, profiles, network, workspace, lean)
        wanted.apply(builder, config)
        self._timing.attach(config)
        if steps is not None:
            config.progress_monitor = monitor(self._tools.trt, steps)
        try:
            plan = builder.build_serialized_network(network.network, config)
        except MemoryError as error:
            return None, "out of memory: %s" % shortened(error)
        except (RuntimeError, ValueError, TypeError) as error:
            return None, shortened(error)
        self._timing.take(config)
        return plan, ""

    def _config(self, builder, profiles, network, workspace, lean):
        trt, order = self._tools.trt, self._order
        config = builder.create_builder_config()
        if self._tools.has("memory_pools"):
            config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace)
        else:
            config.max_workspace_size = workspace
        if lean:
            sources = trt.TacticSource
            heavy = sum(1 << int(source) for source in (sources.CUBLAS, sources.CUBLAS_LT, sources.CUDNN))
            config.set_tactic_sources(config.get_tactic_sources() & ~heavy)
        if order.optimization_level is not None and self._tools.has("optimization_level"):
            config.builder_optimization_level = order.optimization_level
        for number, ranges in enumerate(profiles, 1):
            self._add_profile(builder, config, network, ranges, number)
        return config

    def _add_profile(self, builder, config, network, ranges, number):
        values = {tensor.name for tensor in network.inputs() if tensor.values}
        made = builder.create_optimization_profile()
        with Hearing(self._tools.log) as heard:
            try:
                for name, sizes in ranges.items():
                    (made.set_shape_input if name in values else made.set_shape)(name, *sizes)
                index = config.add_optimization_profile(made)
            except (RuntimeError, ValueError, TypeError) as error:
                raise self._bad_profile(number, shortened(error)) from error
        if index < 0:
            raise self._bad_profile(number, heard.words)

    @staticmethod
    def _bad_profile(number, why):
        return refused("build.no_profile", "TensorRT does not take profile %d: %s" % (number, why), permanent=True)
