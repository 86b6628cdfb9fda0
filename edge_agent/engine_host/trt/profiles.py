"""Which optimisation profile of a plan runs a batch: pure, decided by shapes alone."""


class Profile:
    """The sizes that one profile allows: input name to (smallest, usual, largest) shape."""

    def __init__(self, index, ranges):
        self.index = index
        self.ranges = ranges
        self.volume = sum(_volume(largest) for _, _, largest in ranges.values())

    def misfit(self, shapes):
        """The first input that does not fit, as (name, smallest, largest); None when all do."""
        for name, (smallest, _, largest) in self.ranges.items():
            shape = shapes[name]
            if len(shape) != len(largest) or any(not low <= dim <= high for low, dim, high in zip(smallest, shape, largest)):
                return name, smallest, largest
        return None


def named(profiles, numbers):
    """Those of these numbers; all where none is named. LookupError with the first number that there is not."""
    by_index = {profile.index: profile for profile in profiles}
    for number in numbers:
        if number not in by_index:
            raise LookupError(number)
    return [by_index[number] for number in sorted(set(numbers))] or profiles


def pick(profiles, shapes, current=None):
    """The index of the smallest profile that takes these shapes; of equals the current one, so that none is changed in vain.

    None when none does; `why_not` says why.
    """
    fitting = [profile for profile in profiles if profile.misfit(shapes) is None]
    if not fitting:
        return None
    return min(fitting, key=lambda profile: (profile.volume, profile.index != current, profile.index)).index


def pad(profiles, shapes):
    """(index, rows) of the profile that takes these shapes with the fewest rows added; None when none does.

    For batches that fall below a profile or between two: each shape's first size is the batch's.
    """
    wanted = max(shape[0] for shape in shapes.values())
    found = []
    for profile in profiles:
        rows = max(smallest[0] for smallest, _, _ in profile.ranges.values())
        fits = profile.misfit({name: (rows,) + shape[1:] for name, shape in shapes.items()}) is None
        if rows > wanted and fits:
            found.append((rows, profile.volume, profile.index))
    if not found:
        return None
    rows, _, index = min(found)
    return index, rows


def why_not(profiles, shapes):
    """What to tell whoever sent shapes that no profile takes."""
    name, _, _ = profiles[-1].misfit(shapes)
    ranges = sorted({profile.ranges[name][0::2] for profile in profiles})
    taken = " or ".join("%s to %s" % (list(low), list(high)) if low != high else str(list(low)) for low, high in ranges)
    return "input '%s' has shape %s, the plan takes %s" % (name, list(shapes[name]), taken)


def rows(profiles):
    """The first sizes that are worth a warm-up: of each profile the smallest, the usual and the largest."""
    found = set()
    for profile in profiles:
        for shapes in profile.ranges.values():
            found.update(shape[0] for shape in shapes if shape)
    return sorted(found)


def usual_shapes(profiles, specs, count):
    """Shapes with `count` rows (None: the profile's own) that a profile takes, its usual sizes elsewhere; None if none does.

    `specs` are the inputs as the model declares them: sizes that it fixes stay.
    """
    for profile in sorted(profiles, key=lambda one: one.volume):
        shapes = {}
        for spec in specs:
            usual = profile.ranges[spec.name][1] if spec.name in profile.ranges else spec.shape
            shapes[spec.name] = tuple(want if want >= 0 else have for want, have in zip(spec.shape, usual))
            if count is not None and spec.shape:
                shapes[spec.name] = (count,) + shapes[spec.name][1:]
        if profile.misfit(shapes) is None or (count is not None and pad([profile], shapes) is not None):
            return shapes
    return None


def _volume(shape):
    count = 1
    for dim in shape:
        count *= dim
    return count
