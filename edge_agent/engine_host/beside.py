"""The modules that lie beside a Python model: each model imports its own, whatever another model's are called.

A model's code has an `__import__` of its own, which finds them in a package that is this model's alone. It reaches
`import` statements, also those that run later; `importlib.import_module` knows only what all models share.
"""

import builtins
import gc
import importlib
import os
import sys
import types
from importlib.machinery import PathFinder, SourceFileLoader

_SHARED = ("triton_python_backend_utils", "c_python_backend_utils")  # the agent's, even where a copy lies about
_packages = {}  # name: Beside


class Beside:
    """The package of one model's modules, from its folders, until `forget`."""

    def __init__(self, model, folders):
        self._model = model
        self._package = model + "_beside"
        self._folders = [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]
        self.builtins = dict(vars(builtins), __import__=self._import)  #: what the model's code finds as its builtins

    def begin(self):
        """From now on its modules can be imported."""
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        importlib.invalidate_caches()  # a reload must see new files
        package = types.ModuleType(self._package)
        package.__path__ = self._folders
        _packages[self._package] = self
        sys.modules[self._package] = package

    def forget(self):
        """Lets go of the model's modules and of all that they hold."""
        _packages.pop(self._package, None)
        for name in list(sys.modules):
            if name in (self._model, self._package) or name.startswith(self._package + "."):
                sys.modules.pop(name, None)
        gc.collect()  # modules and their functions hold each other

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):  # noqa: A002 - Python's names
        top = name.partition(".")[0]
        if level or not self._is_own(top):
            return builtins.__import__(name, globals, locals, fromlist, level)
        own = "%s.%s" % (self._package, name)
        if fromlist:
            return builtins.__import__(own, globals, locals, fromlist, 0)
        importlib.import_module(own)
        return sys.modules["%s.%s" % (self._package, top)]

    def _is_own(self, top):
        own = "%s.%s" % (self._package, top)
        if own in sys.modules:
            return True
        if top in _SHARED or top in sys.builtin_module_names:
            return False
        spec = PathFinder.find_spec(own, self._folders)
        if spec is None:
            return False
        # A folder without __init__.py comes after all modules of that name, as everywhere in Python.
        return spec.loader is not None or (top not in sys.modules and PathFinder.find_spec(top) is None)


class _Finder:
    """Finds the modules of such packages."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Python's hook: None for all other modules."""
        beside = _packages.get(name.partition(".")[0])
        if beside is None or path is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.origin, beside.builtins)
        return spec


_finder = _Finder()


class _Loader(SourceFileLoader):
    """Runs the present text, with the model's builtins, and writes nothing into the repository."""

    def __init__(self, name, path, names):
        super().__init__(name, path)
        self._builtins = names

    def get_code(self, fullname):
        """Compiled anew each time."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module):
        """Its imports go the model's way, too."""
        module.__dict__["__builtins__"] = self._builtins
        super().exec_module(module)
