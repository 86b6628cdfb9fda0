"""What became of a context since it last ran plainly, and of the graphs that were recorded of it.

NVIDIA asks for a plain run after a change of shapes or profile before the next recording, and calls the launch of a graph
undefined once its context was changed. Here the recording is refused, and such a launch writes rubbish.
"""


class Told:
    """Kept by what is recorded, so that a context may end before its graphs do."""

    def __init__(self):
        self._changes = 0
        self.dirty = True  #: changed, and not run since

    def change(self):
        """Other shapes, another profile, or the end."""
        self._changes += 1
        self.dirty = True

    def staleness(self):
        """A function that tells whether there was a change since now."""
        now = self._changes
        return lambda: self._changes != now
