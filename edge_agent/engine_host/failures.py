"""Why a model could not be loaded or did not answer, in words for people."""

import os
import sys
import traceback

_TEXT_KEPT = 600


class LoadError(Exception):
    """A model cannot be loaded; the text names it and says what to do. `code` tells kinds apart where it matters.

    `permanent`: the engine says that it cannot run this model, now or later.
    """

    def __init__(self, text, code="", permanent=False):
        super().__init__(text)
        self.detail = {"code": code} if code else {}
        if permanent:
            self.detail["permanent"] = True


class ModelFailed(Exception):
    """A Python model did not answer a request; `status` is Triton's word for the kind, empty for an error of its own."""

    def __init__(self, text, status=""):
        super().__init__(text)
        self.status = status


class RunFailed(Exception):
    """An engine cannot do this run, and can do others; `code` is what the request is told."""

    def __init__(self, text, code="engine.execution_failed"):
        super().__init__(text)
        self.code = code


def shortened(error):
    """What a library said, on one line that fits a status page."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _TEXT_KEPT else text[:_TEXT_KEPT] + "..."


def raised(error, directory):
    """What a user's code raised, with the innermost line in `directory`; the whole of it goes to the log."""
    traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.flush()
    said = "%s: %s" % (type(error).__name__, shortened(error))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(directory + os.sep)]
    return "%s (%s line %d)" % (said, os.path.basename(frames[-1].filename), frames[-1].lineno) if frames else said
