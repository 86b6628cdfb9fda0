"""Writes files so that they are whole on the disk, or not there."""

import errno
import os

from edge_agent.engine_host.build.failures import refused

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_plan(path, plan):
    """Writes the plan; Refused says why it is not there. Answers its bytes."""
    try:
        return write_file(path, plan)
    except OSError as error:
        if os.path.exists(path):
            os.unlink(path)
        code = "build.no_space" if error.errno in _FULL else "build.failed"
        raise refused(code, "the plan cannot be written: %s" % error) from error


def write_file(path, data):
    """Writes, flushes to the disk, answers the bytes; readable and writable by the owner alone, never through a link."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
