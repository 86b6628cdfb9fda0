"""Prints, as JSON, what a TensorRT binding has: run by the contract tests in the binding's own venv, or in the fake's.

    python introspect.py tensorrt_bindings

Of each class: members with their keyword names where the docstring tells a signature (null for what is no function or
tells none); of each enumeration its members' numbers.
"""

import importlib
import inspect
import json
import re
import sys

_SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\)(?: -> .*)?$")
_SPECIAL = ("__getitem__", "__iter__", "__len__", "__enter__", "__exit__")
_OPENING, _CLOSING = "([{<", ")]}>"


def parameters(text):
    """Names of the parameters in a signature's brackets; commas within types and defaults do not part them."""
    names, depth, piece, quoted = [], 0, "", False
    for letter in text + ",":
        quoted ^= letter in "'\""
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0 and not quoted:
            name = re.match(r"\s*(\w+)", piece)  # *args and **kwargs of an overload's head are no names
            if name:
                names.append(name.group(1))
            piece = ""
        else:
            piece += letter
    return names


def keywords(function):
    """All keyword names over all overloads of a bound function, without self; None when nothing tells them."""
    if inspect.isfunction(function):  # a double's, written in Python
        return [name for name in inspect.signature(function).parameters if name != "self"]
    found = None
    for line in (function.__doc__ or "").splitlines():
        match = _SIGNATURE.match(line.strip())
        if match and match.group(1) in (getattr(function, "__name__", ""), "__init__"):
            found = (found or []) + [
                name for name in parameters(match.group(2)) if name != "self" and name not in (found or [])
            ]
    return found


def members(cls):
    """{public member: keywords or None} of a class and its bases, `__init__` among them."""
    found = {}
    inherited = {name for base in cls.__mro__ if base.__module__ == "builtins" for name in vars(base)}
    for name in dir(cls):
        if name != "__init__" and (name in inherited or (name.startswith("_") and name not in _SPECIAL)):
            continue
        value = inspect.getattr_static(cls, name)
        value = getattr(value, "__func__", value)
        found[name] = keywords(value) if callable(value) and not isinstance(value, type) else None
    return found


def numbers(cls):
    """{member: number} of an enumeration."""
    return {name: int(value) for name, value in cls.__members__.items()}


def main():
    """One document for the module named on the command line."""
    module = importlib.import_module(sys.argv[1])
    names, functions, classes, enums = [], {}, {}, {}
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        names.append(name)
        if inspect.isclass(value):
            classes[name] = members(value)
            if hasattr(value, "__members__"):
                enums[name] = numbers(value)
        elif callable(value):
            functions[name] = keywords(value)
    enums["ILogger.Severity"] = numbers(module.ILogger.Severity)
    print(json.dumps({"names": names, "functions": functions, "classes": classes, "enums": enums}))


if __name__ == "__main__":
    main()
