"""The builder's configuration."""

from fake_gpu import driver, logger, native, settings
from fake_gpu.generation import ENUMS, enum, has
from fake_gpu.profile import IOptimizationProfile
from fake_gpu.timing import ITimingCache, origin

_MOST = 5  # of the optimization levels


def _sources():
    """What is on at first: before 10 the libraries too."""
    members = enum("TacticSource").__members__
    off = ("CUDNN", "CUBLAS", "CUBLAS_LT") if settings.VERSION.split(".")[0] != "8" else ()
    return sum(1 << int(source) for name, source in members.items() if name not in off)


class IBuilderConfig(native.Native):
    """Wishes for one build."""

    max_workspace_size = native.Attribute(16 << 20, int)
    min_timing_iterations = native.Attribute(2, int)
    avg_timing_iterations = native.Attribute(1, int)
    int8_calibrator = native.Attribute()
    default_device_type = native.Attribute(enum("DeviceType").GPU)
    DLA_core = native.Attribute(-1, int)
    progress_monitor = native.Attribute()
    profiling_verbosity = native.Attribute(enum("ProfilingVerbosity").LAYER_NAMES_ONLY)
    hardware_compatibility_level = native.Attribute(getattr(enum("HardwareCompatibilityLevel"), "NONE", None))
    max_aux_streams = native.Attribute(-1, int)

    def __init__(self, owner=None):
        self._flags = 1 << int(enum("BuilderFlag").TF32)
        self._profiles = []
        self._pools = {}
        self._preview = {}
        self._cache = None
        self._level = 3
        self._sources = _sources()

    @property
    def builder_optimization_level(self):
        return self._level

    @builder_optimization_level.setter
    def builder_optimization_level(self, level):
        self._level = min(max(int(level), 0), _MOST)

    @property
    def flags(self):
        return self._flags

    @flags.setter
    def flags(self, bits):
        self._flags = int(bits)

    @property
    def num_optimization_profiles(self):
        return len(self._profiles)

    def set_flag(self, flag):
        self._flags |= 1 << self._flag("set_flag", flag)

    def clear_flag(self, flag):
        self._flags &= ~(1 << self._flag("clear_flag", flag))

    def get_flag(self, flag):
        return bool(self._flags >> self._flag("get_flag", flag) & 1)

    @staticmethod
    def _flag(function, flag):
        if type(flag) is not ENUMS["BuilderFlag"]:
            raise native.incompatible(function, flag)
        return int(flag)

    def _is(self, name):
        """Whether a flag is set; one that this generation lacks never is."""
        return has("BuilderFlag." + name) and self.get_flag(getattr(ENUMS["BuilderFlag"], name))

    def add_optimization_profile(self, profile):
        if not isinstance(profile, IOptimizationProfile):
            raise native.incompatible("add_optimization_profile", profile)
        if not profile._valid():
            return -1
        self._profiles.append(profile._copied())
        return len(self._profiles) - 1

    def set_memory_pool_limit(self, pool, pool_size):
        self._pools[pool] = int(pool_size)

    def get_memory_pool_limit(self, pool):
        return self._pools.get(pool, settings.MEMORY_BYTES)

    def _workspace(self):
        """What a layer may take."""
        if has("MemoryPoolType") and enum("MemoryPoolType").WORKSPACE in self._pools:
            return self._pools[enum("MemoryPoolType").WORKSPACE]
        return settings.MEMORY_BYTES if has("MemoryPoolType") else self.max_workspace_size

    def set_preview_feature(self, feature, enable):
        self._preview[feature] = bool(enable)

    def get_preview_feature(self, feature):
        return self._preview.get(feature, False)

    def set_tactic_sources(self, tactic_sources):
        self._sources = int(tactic_sources)
        return True

    def get_tactic_sources(self):
        return self._sources

    def _uses_libraries(self):
        """Whether kernels of cuDNN may be taken."""
        cudnn = getattr(enum("TacticSource"), "CUDNN", None)
        return cudnn is not None and bool(self._sources >> int(cudnn) & 1)

    def create_timing_cache(self, serialized_timing_cache):
        try:
            return ITimingCache(serialized_timing_cache)
        except (ValueError, KeyError, TypeError):
            logger.error("Error Code 1: Serialization (the timing cache cannot be read)")
            return None

    def set_timing_cache(self, cache, ignore_mismatch):
        if cache is None:
            raise native.incompatible("set_timing_cache", cache, ignore_mismatch)
        if cache._origin != origin() and not ignore_mismatch:
            logger.error("Error Code 3: API Usage Error (the timing cache was made by %s)" % cache._origin)
            return False
        self._cache = cache
        return True

    def get_timing_cache(self):
        return self._cache

    def reset(self):
        self.__init__()

    def can_run_on_DLA(self, layer):
        return driver.usable() and settings.DLA_CORES > 0
