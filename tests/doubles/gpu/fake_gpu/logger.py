"""Loggers. Only the first one that is handed to the library counts, as with the real one."""

import sys

from fake_gpu import native
from fake_gpu.generation import ENUMS

_first = []


class ILogger(native.Native):
    """To be derived from: `log` is called from any thread."""

    Severity = ENUMS["ILogger.Severity"]
    INTERNAL_ERROR = Severity.INTERNAL_ERROR
    ERROR = Severity.ERROR
    WARNING = Severity.WARNING
    INFO = Severity.INFO
    VERBOSE = Severity.VERBOSE

    def log(self, severity, msg):
        """Overridden."""


class Logger(ILogger):
    """Writes to stderr."""

    min_severity = native.Attribute(ILogger.Severity.WARNING)

    def __init__(self, min_severity=ILogger.Severity.WARNING):
        self.min_severity = min_severity

    def log(self, severity, msg):
        """Writes what is severe enough."""
        if int(severity) <= int(self.min_severity):
            sys.stderr.write("[TRT] [%s] %s\n" % (severity.name[0], msg))


def take(logger):
    """A logger is handed to the library."""
    if not isinstance(logger, ILogger):
        raise native.incompatible("__init__", logger)
    if not _first:
        _first.append(logger)
    elif _first[0] is not logger:
        warning("The logger passed differs from one already provided for an existing builder, runtime, or refitter.")
    return logger


def error(text):
    """An error, to the logger that counts."""
    _say(ILogger.Severity.ERROR, text)


def warning(text):
    """A warning."""
    _say(ILogger.Severity.WARNING, text)


def info(text):
    """Chatter."""
    _say(ILogger.Severity.INFO, text)


def _say(severity, text):
    if _first:
        _first[0].log(severity, text)
