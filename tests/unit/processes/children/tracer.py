"""Traces a process: as long as this runs, the traced one cannot be reaped by its parent, as if a driver held it.

python tracer.py PID; says `holds`, and leaves at EOF on stdin.
"""

import ctypes
import sys

_PTRACE_SEIZE = 0x4206

if __name__ == "__main__":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(_PTRACE_SEIZE, int(sys.argv[1]), None, None) != 0:
        sys.exit("ptrace is not allowed here: errno %d" % ctypes.get_errno())
    sys.stdout.write("holds\n")
    sys.stdout.flush()
    sys.stdin.read()
