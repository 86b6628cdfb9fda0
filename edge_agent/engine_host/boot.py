"""First code of every child process: ties its life to the agent's, then runs the module it was started for.

Python 3.6, standard library only. Run as a script, never imported by the agent:

    PYTHON -I -u boot.py TARGET_MODULE PARENT_PID CONTROL_FD [--name=N] [--oom=N] [--nice=N] [--path=DIR]... [-- ARG...]

TARGET_MODULE has `main(control_socket, args)`. `-I` keeps the agent's site-packages out of another interpreter's
path, so this file itself makes the package `edge_agent` known, without running its `__init__`.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_NAME_BYTES = 15  # what the kernel keeps of a name

EXIT_ORPHANED = 70


def _prctl(option, value):
    """prctl(2); its failure is no reason to end: the guard thread of Control watches the parent too."""
    return ctypes.CDLL(None).prctl(ctypes.c_int(option), value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def die_with_parent(parent):
    """Asks the kernel for SIGKILL when the agent's main thread ends; leaves if that has already happened."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(EXIT_ORPHANED)


def set_name(name):
    """Names the calling thread, for `top` and `ps`: the first 15 bytes of it."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:_NAME_BYTES]))


def _yield_to_agent(oom_score_adj, nice):
    """The kernel's out-of-memory killer shall choose a child before the agent. Both are wishes, not conditions."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(str(oom_score_adj))
    if nice:
        with contextlib.suppress(OSError):
            os.nice(nice)


def _make_package_known():
    """A stand-in for the package: its modules import by their real names, its `__init__` does not run."""
    import types

    package = types.ModuleType("edge_agent")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["edge_agent"] = package


def _options(words):
    """({option: [values]}, arguments after `--`)."""
    options = {}
    for number, word in enumerate(words):
        if word == "--":
            return options, words[number + 1 :]
        key, _, value = word.partition("=")
        options.setdefault(key.lstrip("-"), []).append(value)
    return options, []


def _run(target, descriptor, options, args):
    import faulthandler
    import importlib
    import socket

    faulthandler.enable()  # a crash in a driver leaves its Python stack in the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the agent decides
    sys.path[:0] = options.get("path", [])
    sys.argv = [target] + args
    os.set_inheritable(descriptor, False)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=descriptor)
    importlib.import_module(target).main(control, args)


def main(argv):
    """Runs the target; ends the process without waiting for its threads."""
    target, parent, descriptor = argv[0], int(argv[1]), int(argv[2])
    die_with_parent(parent)
    options, args = _options(argv[3:])
    set_name(options.get("name", [target.rpartition(".")[2]])[-1])
    _yield_to_agent(int(options.get("oom", ["500"])[-1]), int(options.get("nice", ["0"])[-1]))
    _make_package_known()
    code = 0
    try:
        _run(target, descriptor, options, args)
    except BaseException:  # noqa: BLE001 (the last frame of the process)
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
