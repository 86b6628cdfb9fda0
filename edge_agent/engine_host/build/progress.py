"""How far a build is: as TensorRT says (10 and later), else by the time that a former build took, else by the phase alone."""

import threading
import time

_INTERVAL_S = 1.0
_SPAN = {"parse": (0.0, 5.0), "build": (5.0, 97.0), "serialize": (97.0, 100.0)}  # percent
_TELLING_SHARE = 0.02  # of the work done, before the time left can be told from it


class Progress:
    """Tells the agent each second, from a thread of its own: a build holds the calling one."""

    def __init__(self, send, expected_s, interval_s=_INTERVAL_S, clock=time.monotonic):
        self._send = send
        self._expected_s = expected_s
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._phase = "parse"
        self._text = ""
        self._workspace = 0
        self._since = self._clock()
        self._steps = None
        self._ended = threading.Event()

    def start(self):
        """Tells from now on."""
        thread = threading.Thread(target=self._run, name="progress")
        thread.daemon = True
        thread.start()

    def stop(self):
        """Tells no more."""
        self._ended.set()

    def enter(self, phase, workspace=0, text="", steps=None):
        """A phase begins; `text` says what is done again, `steps` counts TensorRT's own steps."""
        with self._lock:
            self._phase, self._text, self._workspace, self._steps = phase, text, workspace, steps
            self._since = self._clock()
        self.tell()

    def _run(self):
        while not self._ended.wait(self._interval_s):
            self.tell()

    def tell(self):
        """Tells now."""
        with self._lock:
            share, eta_s = self._estimate()
            first, last = _SPAN[self._phase]
            fields = {
                "phase": self._phase,
                "percent": round(first + share * (last - first), 1),
                "eta_s": None if eta_s is None else round(eta_s, 1),
                "text": self._text,
                "workspace_bytes": self._workspace,
            }
        self._send(fields)

    def _estimate(self):
        """(share of the phase, seconds left of the build or None)."""
        if self._phase != "build":
            return 0.0, None
        elapsed = self._clock() - self._since
        share = self._steps.share if self._steps is not None else 0.0
        if share >= _TELLING_SHARE:
            return share, elapsed * (1 - share) / share
        if self._expected_s > 0:
            return max(share, min(elapsed / self._expected_s, 0.99)), max(self._expected_s - elapsed, 0.0)
        return share, None


class Steps:
    """TensorRT's phases within phases, each with its number of steps, as one share that never falls."""

    def __init__(self):
        self._lock = threading.Lock()
        self._phases = {}  # name: [parent, steps, steps done]
        self._share = 0.0

    @property
    def share(self):
        """0 to 1."""
        with self._lock:
            return self._share

    def begin(self, name, parent, steps):
        """A phase begins within another (None: within none)."""
        with self._lock:
            self._phases[name] = [parent, max(1, int(steps)), 0]

    def done(self, name, step):
        """Step number `step` of a phase is done."""
        with self._lock:
            phase = self._phases.get(name)
            if phase is not None:
                phase[2] = min(int(step) + 1, phase[1])
                self._look()

    def end(self, name):
        """A phase is over."""
        with self._lock:
            phase = self._phases.get(name)
            if phase is not None:
                phase[2] = phase[1]
                self._look()
                del self._phases[name]

    def _look(self):
        tops = [name for name, (parent, _, _) in self._phases.items() if parent not in self._phases]
        if tops:
            self._share = max(self._share, min(self._of(tops[0], 0), 1.0))

    def _of(self, name, depth):
        _, steps, done = self._phases[name]
        inner = [self._of(child, depth + 1) for child, phase in self._phases.items() if phase[0] == name and depth < 16]
        return min((done + (inner[0] if inner and done < steps else 0.0)) / steps, 1.0)


def monitor(trt, steps):
    """TensorRT's monitor over `steps`; called from its threads, and never asks it to stop."""

    class Monitor(trt.IProgressMonitor):
        """Its names are TensorRT's."""

        def __init__(self):
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name, parent_phase, num_steps):
            steps.begin(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name, step):
            steps.done(phase_name, step)
            return True

        def phase_finish(self, phase_name):
            steps.end(phase_name)

    return Monitor()
