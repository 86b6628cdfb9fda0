"""What pybind11 classes have in common: no attributes of one's own, counted while they live; enumerations by the name lists."""

from fake_gpu import counts


class Native(counts.Counted):
    """An object of the library."""

    def __new__(cls, *_args, **_keywords):
        made = super().__new__(cls)
        made._count()
        return made

    def __setattr__(self, name, value):
        if type(self).__module__.startswith("fake_gpu.") and not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError("'tensorrt.tensorrt.%s' object has no attribute '%s'" % (type(self).__name__, name))
        object.__setattr__(self, name, value)


def enter(self):
    """`with` on an object of the library, where it has that."""
    return self


def leave(self, *_):
    """The end of it."""


class Attribute:
    """A plain attribute of a library's class, with the value that it has at first."""

    def __init__(self, default=None, convert=None):
        self._default = default
        self._convert = convert

    def __set_name__(self, _owner, name):
        self._name = "_value_" + name

    def __get__(self, instance, _owner):
        return self if instance is None else instance.__dict__.get(self._name, self._default)

    def __set__(self, instance, value):
        instance.__dict__[self._name] = self._convert(value) if self._convert else value


def incompatible(function, *args):
    """The TypeError of pybind11 for arguments of a wrong kind."""
    return TypeError(
        "%s(): incompatible function arguments. Invoked with: %s" % (function, ", ".join(repr(arg) for arg in args))
    )


class _Member:
    """A member of a pybind11 enumeration: it compares with numbers, and says Class.NAME."""

    def __init__(self, name, value):
        self._name = name
        self._number = value

    @property
    def name(self):
        return self._name

    @property
    def value(self):
        return self._number

    def __int__(self):
        return self._number

    __index__ = __int__

    def __eq__(self, other):
        return other == self._number if isinstance(other, int) else type(other) is type(self) and self._number == int(other)

    def __hash__(self):
        return hash(self._number)

    def __str__(self):
        return "%s.%s" % (type(self).__name__, self._name)

    def __repr__(self):
        return "<%s: %d>" % (self, self._number)


def enumeration(name, numbers):
    """The class of an enumeration with those members."""
    cls = type(name, (_Member,), {"__module__": "fake_gpu.native", "__members__": {}})
    for member, number in numbers.items():
        value = cls(member, number)
        cls.__members__[member] = value
        setattr(cls, member, value)
    return cls
