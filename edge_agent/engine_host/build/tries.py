"""Which workspace a build is tried with next, and with which sources of kernels: by what the last try lacked."""


class Tries:
    """`sizes` from the largest down; `larger` (0: none) may be had where every kernel wants more than they have.

    Lean does without cuBLAS and cuDNN, which cost half a gigabyte where 8.x uses them: from the start where memory is `short`,
    else after it was.
    """

    def __init__(self, sizes, larger, can_be_lean, short):
        self.workspace = sizes[0]
        self.lean = can_be_lean and short
        self.out_of_memory = False  #: some try was
        self._sizes = sizes
        self._larger = larger
        self._can_be_lean = can_be_lean
        self._done = set()
        self._too_small = 0  # with all sources
        self._want_all = False

    def after_memory(self):
        """Whether there is another try, after one that memory was too short for: less of it."""
        self.out_of_memory = True
        lean = self._can_be_lean and not self._want_all
        return self._take([(size, lean) for size in self._sizes if size < self.workspace])

    def after_implementation(self):
        """The same after one that found no kernel for a layer: all sources, or more workspace. Less would find fewer."""
        self._want_all = True
        if not self.lean:
            self._too_small = max(self._too_small, self.workspace)
        most = self._sizes[0]
        wanted = [(most, False), (most, self._can_be_lean)]
        if self._larger > most and not self.out_of_memory:
            wanted.append((self._larger, False))
        return self._take([one for one in wanted if one[0] >= self.workspace])

    def _take(self, wanted):
        self._done.add((self.workspace, self.lean))
        for one in wanted:
            if one not in self._done and one[0] > self._too_small:
                self.workspace, self.lean = one
                return True
        return False
