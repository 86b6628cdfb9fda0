"""The model repository on disk, in Triton's layout: NAME/config.toml, NAME/VERSION/model.onnx."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.model_config import ModelConfig, load_model_config
from edge_agent.config.platforms import FILES
from edge_agent.config.section import MODEL_NAME_PATTERN

_VERSION = re.compile(r"[1-9][0-9]{0,18}\Z")


#: folders that file systems make by themselves
_NOT_MODELS = ("lost+found",)


@dataclass(frozen=True)
class VersionEntry:
    """One version's file; TensorRT has a second one, of which the plan is only a cache."""

    number: int
    platform: str
    path: Path
    onnx: Optional[Path] = None  #: of `tensorrt_plan`: the ONNX model, where there is one

    @property
    def plan(self) -> Optional[Path]:
        """A plan that lies in the repository."""
        return self.path if self.platform == "tensorrt_plan" and self.path != self.onnx else None

    @property
    def truth(self) -> Path:
        """The file that says what the version is."""
        return self.onnx or self.path


@dataclass(frozen=True)
class ModelEntry:
    """One model as it lies on disk; `fault` says why it cannot be served."""

    name: str
    directory: Path
    config: ModelConfig
    versions: Tuple[VersionEntry, ...]  #: that its version policy selects, lowest first
    fault: str = ""
    on_disk: Tuple[VersionEntry, ...] = ()  #: all of them

    def only(self, *numbers: int) -> ModelEntry:
        """The same with these of its versions."""
        return replace(self, versions=tuple(version for version in self.on_disk if version.number in numbers))


def find(repositories: Sequence[Path], name: str) -> Optional[ModelEntry]:
    """One model by its name, from the first repository that has it."""
    for repository in repositories:
        directory = repository / name
        if MODEL_NAME_PATTERN.match(name) and directory.is_dir():
            return read_model(repository, directory)
    return None


def scan(repositories: Sequence[Path]) -> List[ModelEntry]:
    """Every model of the repositories by name; one found twice is taken from the first and faulted in none.

    Raises ConfigError when a repository is not a readable folder.
    """
    found: Dict[str, ModelEntry] = {}
    for repository in repositories:
        for directory in _model_directories(repository):
            if directory.name not in found:
                found[directory.name] = read_model(repository, directory)
    return [found[name] for name in sorted(found)]


def _model_directories(repository: Path) -> Iterator[Path]:
    try:
        children = sorted(repository.iterdir())
    except OSError as error:
        cure = "make the folder, or set models.repository to where your models are"
        raise errors.ConfigError([("models.repository", "%s: %s" % (repository, error.strerror), cure)]) from error
    return (child for child in children if child.is_dir() and not child.name.startswith(".") and child.name not in _NOT_MODELS)


def read_model(repository: Path, directory: Path, config: Optional[ModelConfig] = None) -> ModelEntry:
    """A model's folder; `config` stands in for the file in it (a load with a configuration of its own)."""
    empty = ModelConfig()
    name = directory.name
    if not MODEL_NAME_PATTERN.match(name):
        return ModelEntry(name, directory, empty, (), "'%s' is not a model name: use letters, digits, '.', '_', '-'" % name)
    if not _inside(repository, directory):
        return ModelEntry(name, directory, empty, (), "the folder is a link that leads out of the repository")
    try:
        config = config or load_model_config(directory)
        on_disk = _versions(repository, directory, config)
    except (errors.ConfigError, OSError) as error:
        return ModelEntry(name, directory, empty, (), str(error))
    if config.refused:
        return ModelEntry(name, directory, config, (), config.refused)
    entry = ModelEntry(name, directory, config, (), on_disk=on_disk)
    selected = entry.only(*config.version_policy.select(version.number for version in on_disk))
    return selected if selected.versions else replace(entry, fault=_nothing_there(directory, config))


def _nothing_there(directory: Path, config: ModelConfig) -> str:
    if config.platform == "ensemble":  # what copies repositories about, git for one, drops empty folders
        return "no version folder in %s: an ensemble has one too, which may be empty: make %s" % (directory, directory / "1")
    return "no version folder (1, 2, ...) with a model file in %s" % directory


def _inside(repository: Path, path: Path) -> bool:
    root = repository.resolve()
    resolved = path.resolve()
    return resolved == root or root in resolved.parents


def _versions(repository: Path, directory: Path, config: ModelConfig) -> Tuple[VersionEntry, ...]:
    entries: Dict[int, VersionEntry] = {}
    for folder in directory.iterdir():
        if _VERSION.match(folder.name) and folder.is_dir():
            entry = _version_file(int(folder.name), folder, config)
            if entry is not None and _inside(repository, entry.path) and _inside(repository, entry.truth):
                entries[entry.number] = entry
    return tuple(entries[number] for number in sorted(entries))


def _version_file(number: int, folder: Path, config: ModelConfig) -> Optional[VersionEntry]:
    if config.platform == "ensemble":
        return VersionEntry(number, config.platform, folder)
    said = config.default_model_filename
    if config.platform not in ("", "tensorrt_plan"):
        path = folder / (said or FILES.get(config.platform, "model"))
        return VersionEntry(number, config.platform, path) if path.is_file() else None
    plan, onnx = _there(folder, said, ".plan"), _there(folder, said, ".onnx")
    if plan is not None or (onnx is not None and (config.platform or config.build_values is not None)):
        return VersionEntry(number, "tensorrt_plan", plan or onnx or folder, onnx)
    if onnx is not None:
        return VersionEntry(number, "onnxruntime_onnx", onnx)
    python = _there(folder, said, ".py")
    return VersionEntry(number, "python", python) if python is not None and not config.platform else None


def _there(folder: Path, said: str, ending: str) -> Optional[Path]:
    """The version's file of that kind.

    `said` names the one that its ending fits (one of nobody's fits a plan); what else there is has the same stem, and a
    plan of any name may have a model.onnx beside it.
    """
    own = Path(said or "model" + ending)
    if own.suffix == ending or (ending == ".plan" and own.suffix not in (".onnx", ".py")):
        names = [own.name]
    else:
        names = [own.stem + ending] + ["model.onnx"] * (ending == ".onnx" and own.suffix != ".py")
    return next((folder / name for name in names if (folder / name).is_file()), None)


#: size, time and identity of every file that a version is made of
Fingerprint = Tuple[Tuple[str, int, int, int], ...]


def fingerprint(entry: ModelEntry, version: VersionEntry) -> Fingerprint:
    """Changes with any file of the version's folder, and with any beside config.toml (labels, decoders)."""
    files = [path for path in entry.directory.iterdir() if path.is_file()]
    files += [path for path in version.path.parent.rglob("*") if path.is_file()]
    marks = []
    for path in sorted(files):
        try:
            stat = path.stat()
        except OSError:
            continue  # it went in this moment: the next look tells
        marks.append((str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino))
    return tuple(marks)


#: the fingerprints of a model's versions, of all that are on disk
Marks = Mapping[int, Fingerprint]


def marked(entry: ModelEntry) -> Tuple[ModelEntry, Marks]:
    """Fingerprints of all versions; where files cannot be read the entry has that as its fault. Call it off the loop."""
    try:
        return entry, {version.number: fingerprint(entry, version) for version in entry.on_disk}
    except OSError as error:
        fault = "its files cannot be read: %s" % error
        return replace(entry, versions=(), on_disk=(), fault=fault), {0: ((fault, 0, 0, 0),)}


def replaced(served: Iterable[str], selected: Collection[str], ready: Collection[str]) -> List[str]:
    """Of the versions that are served those that may go: not selected, and all that are serve, or one that is newer does."""
    up = [int(number) for number in selected if number in ready]
    newest = max(up, default=0)
    return [number for number in served if number not in selected and (len(up) == len(selected) or int(number) < newest)]


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex; reads it in pieces, so call it off the loop."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            state.update(piece)
    return state.hexdigest()
