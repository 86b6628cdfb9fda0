"""Verb `version`: agent, Python, and the engines that this interpreter has, read from their metadata without loading them."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib import metadata
from typing import Optional

from edge_agent import __version__

NAME = "version"

#: an engine's name, and the distributions that bring it
ENGINES = (("onnxruntime", ("onnxruntime", "onnxruntime-gpu")), ("tensorrt", ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(args: argparse.Namespace) -> int:
    """Print one line each."""
    print("edge-agent %s" % __version__)
    print("Python %s (%s, %s)" % (platform.python_version(), sys.executable, platform.machine()))
    for engine, distributions in ENGINES:
        print("%s %s" % (engine, next(filter(None, map(_installed, distributions)), "not installed")))
    return 0


def _installed(distribution: str) -> Optional[str]:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
