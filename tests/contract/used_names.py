"""What the agent's code uses of TensorRT and PyCUDA, read out of its syntax trees.

Each attribute access is put to a class of the library where it is known what the object is: by SEEDS, and by what is assigned
from calls whose answers RETURNS tells. A name of the library on an object that nobody told about is reported, unless it is a
word that our own objects use as well.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = {name: ROOT / "edge_agent" / "engine_host" / name for name in ("trt", "build")}
MODULE = ""  #: the class that stands for the module `tensorrt` itself
CUDA = "cuda:"  #: the same for pycuda.driver; its classes are "cuda:Stream" and so on


class Use(NamedTuple):
    """One place in the code: a member of a class, and the keywords and number of arguments of its call."""

    where: str
    cls: str
    name: str
    keywords: Tuple[str, ...] = ()
    arguments: Optional[int] = None  # None: it is not called here


class Override(NamedTuple):
    """A method that a class of ours gives in place of the library's."""

    where: str
    cls: str
    name: str
    parameters: Tuple[str, ...]


#: On objects that SEEDS does not name these say nothing.
COMMON = frozenset(
    ("Context",
     "clear", "code", "dtype", "engine", "file", "free", "handle", "init", "itemsize", "line", "log", "name", "nbytes", "pop",
     "precision", "push", "read", "record", "reset", "shape", "shape_of", "synchronize", "type", "uint8", "update", "value",
     "volume", "max_batch_size", "flags", "device_memory", "error", "query", "debug", "device")
)  # fmt: skip

OURS = "ours"
#: (package, module or module:function; expression): class of the library, or OURS
SEEDS: Dict[Tuple[str, str], str] = {
    ("build", "threading"): OURS,
    ("trt", "trt"): MODULE,
    ("trt", "self.trt"): MODULE,
    ("trt", "library.trt"): MODULE,
    ("trt", "cuda"): CUDA,
    ("trt", "self.cuda"): CUDA,
    ("trt", "self._cuda"): CUDA,
    ("trt", "self._found.cuda"): CUDA,
    ("trt", "found.cuda"): CUDA,
    ("trt", "device.cuda"): CUDA,
    ("trt/bindings", "engine"): "ICudaEngine",
    ("trt/bindings", "self._context"): "IExecutionContext",
    ("trt/io_tensors", "engine"): "ICudaEngine",
    ("trt/io_tensors", "self._context"): "IExecutionContext",
    ("trt/loaded", "engine"): "ICudaEngine",
    ("trt/loaded", "self.engine"): "ICudaEngine",
    ("trt/loaded", "runtime"): "Runtime",
    ("trt/loaded", "library.runtime"): "Runtime",
    ("trt/library", "self.runtime"): "Runtime",
    ("trt/library", "device"): OURS,
    ("trt/device", "self._device"): "cuda:Device",
    ("trt/device", "self._context"): "cuda:Context",
    ("trt/engine", "stream"): "cuda:Stream",
    ("trt/engine", "self._work"): "cuda:Stream",
    ("trt/engine", "self._down"): "cuda:Stream",
    ("trt/engine", "buffers.uploaded"): "cuda:Event",
    ("trt/engine", "buffers.computed"): "cuda:Event",
    ("trt/engine", "buffers.done"): "cuda:Event",
    ("trt/run", "stream"): "cuda:Stream",
    ("trt/run", "self._context"): OURS,
    ("trt/memory", "allocation"): "cuda:DeviceAllocation",
    ("trt/memory", "self._host.base"): "cuda:PagelockedHostAllocation",
    ("build", "trt"): MODULE,
    ("build", "self.trt"): MODULE,
    ("build", "tools.trt"): MODULE,
    ("build", "self._tools.trt"): MODULE,
    ("build", "builder"): "Builder",
    ("build", "config"): "IBuilderConfig",
    ("build", "made"): "IOptimizationProfile",
    ("build/network", "self.network"): "INetworkDefinition",
    ("build/network", "self._parser"): "OnnxParser",
    ("build/network", "layer"): "ILayer",
    ("build/network", "tensor"): "ITensor",
    ("build/network:_place", "error"): "ParserError",
    ("build/network:_ParserError.__init__", "error"): "ParserError",
}

#: (class, member): the class of what a call or attribute of it gives
RETURNS: Dict[Tuple[str, str], str] = {
    (MODULE, "Runtime"): "Runtime",
    (MODULE, "Builder"): "Builder",
    (MODULE, "OnnxParser"): "OnnxParser",
    ("Runtime", "deserialize_cuda_engine"): "ICudaEngine",
    ("ICudaEngine", "create_execution_context"): "IExecutionContext",
    ("Builder", "create_network"): "INetworkDefinition",
    ("Builder", "create_builder_config"): "IBuilderConfig",
    ("Builder", "create_optimization_profile"): "IOptimizationProfile",
    ("Builder", "build_serialized_network"): "IHostMemory",
    ("IBuilderConfig", "create_timing_cache"): "ITimingCache",
    ("IBuilderConfig", "get_timing_cache"): "ITimingCache",
    ("ITimingCache", "serialize"): "IHostMemory",
    ("INetworkDefinition", "get_input"): "ITensor",
    ("INetworkDefinition", "get_output"): "ITensor",
    ("INetworkDefinition", "get_layer"): "ILayer",
    ("ILayer", "get_output"): "ITensor",
    ("OnnxParser", "get_error"): "ParserError",
    (CUDA, "Device"): "cuda:Device",
    (CUDA, "Stream"): "cuda:Stream",
    (CUDA, "Event"): "cuda:Event",
    (CUDA, "mem_alloc"): "cuda:DeviceAllocation",
    ("cuda:Device", "retain_primary_context"): "cuda:Context",
}


class _Reader(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, package: str, path: Path, known: Set[str]) -> None:
        self.package, self.path, self.known = package, path, known
        self.uses: List[Use] = []
        self.overrides: List[Override] = []
        self.unknown: List[str] = []
        self.seeds: Set[Tuple[str, str]] = set()  # those that were needed
        self._locals: Dict[str, Optional[str]] = {}
        self._within: List[str] = []  # classes and functions around what is read
        self._constants: Set[str] = set()

    def read(self) -> None:
        """Fills what is found."""
        tree = ast.parse(self.path.read_text())
        self._constants = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        self.visit(tree)

    # -- which class an expression is of ------------------------------------------------------------------------------

    def class_of(self, node: ast.AST) -> Optional[str]:
        """A class of the library, OURS, or None."""
        text = _dotted(node)
        if text is not None:
            module = f"{self.package}/{self.path.stem}"
            for scope in (f"{module}:{'.'.join(self._within)}", module, self.package):
                if (scope, text) in SEEDS:
                    self.seeds.add((scope, text))
                    return SEEDS[scope, text]
            if text in self._locals:
                return self._locals[text]
        if isinstance(node, ast.Call):
            return self._answer_of(node)
        if isinstance(node, ast.Attribute):
            return _member_class(self.class_of(node.value), node.attr)
        return None

    def _answer_of(self, call: ast.Call) -> Optional[str]:
        if not isinstance(call.func, ast.Attribute):
            return None
        owner = self.class_of(call.func.value)
        return None if owner is None else RETURNS.get((owner, call.func.attr))

    # -- what is used -------------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        """Names that are assigned within are forgotten after it."""
        outer, self._locals = self._locals, dict(self._locals)
        self._visit_within(node)
        self._locals = outer

    def _visit_within(self, node: ast.AST) -> None:
        self._within.append(getattr(node, "name", ""))
        self.generic_visit(node)
        self._within.pop()

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        """Notes what names stand for."""
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    self._locals[name.id] = self.class_of(value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        """A class that derives from the library's gives methods in place of its own."""
        for base in node.bases:
            owner = self.class_of(base)
            if owner not in (None, OURS):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                        names = tuple(argument.arg for argument in item.args.args[1:])
                        self.overrides.append(Override(self._where(item), str(owner), item.name, names))
        self._visit_within(node)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        """A call tells keywords and how many arguments it has."""
        if isinstance(node.func, ast.Attribute):
            keywords = tuple(word.arg for word in node.keywords if word.arg)
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            self._use(node.func, keywords, None if starred else len(node.args))
            self.visit(node.func.value)
            for child in (*node.args, *node.keywords):
                self.visit(child)
            return
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr", "setattr"):
            self._use_by_text(node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        """A plain access."""
        self._use(node, (), None)
        self.generic_visit(node)

    def _use(self, node: ast.Attribute, keywords: Tuple[str, ...], arguments: Optional[int]) -> None:
        owner = self.class_of(node.value)
        if owner is None and node.attr in self.known - COMMON and _dotted(node.value) != "self":
            self.unknown.append(f"{self._where(node)} .{node.attr} of {_dotted(node.value) or 'an expression'}")
        elif owner not in (None, OURS):
            self.uses.append(Use(self._where(node), str(owner), node.attr, keywords, arguments))

    def _use_by_text(self, node: ast.Call) -> None:
        owner = self.class_of(node.args[0])
        if owner in (None, OURS):
            return
        name = node.args[1]
        if isinstance(name, ast.Constant):
            self.uses.append(Use(self._where(node), str(owner), str(name.value)))
            return
        for text in sorted(self._constants & self.known):  # the name comes from a table of this module
            self.uses.append(Use(self._where(node), f"{owner}?", text))

    def _where(self, node: ast.AST) -> str:
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def _dotted(node: ast.AST) -> Optional[str]:
    """`self._engine` and the like; None for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def _member_class(owner: Optional[str], name: str) -> Optional[str]:
    if owner in (None, OURS):
        return None
    if owner == MODULE:
        return name
    if owner == CUDA:
        return CUDA + name
    if (owner, name) == ("ILogger", "Severity"):
        return "ILogger.Severity"
    return RETURNS.get((str(owner), name))


class Found(NamedTuple):
    """All of a package."""

    uses: List[Use]
    overrides: List[Override]
    unknown: List[str]
    seeds: Set[Tuple[str, str]]


def read(package: str, known: Set[str]) -> Found:
    """What the modules of engine_host/PACKAGE use; `known` are the names of all classes of the library."""
    found = Found([], [], [], set())
    for path in _modules(PACKAGES[package]):
        reader = _Reader(package, path, known)
        reader.read()
        found.uses.extend(reader.uses)
        found.overrides.extend(reader.overrides)
        found.unknown.extend(reader.unknown)
        found.seeds.update(reader.seeds)
    return found


def _modules(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.py")) if path.stem != "names")
