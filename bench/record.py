"""Records of figures in bench/results/: kind of figure, machine, time, command; as JSON files."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.dispatch import machine
from bench.figures_check import with_code
from mavcg import __version__
from mavcg.files.whole_file import write_whole

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
_PACKAGES = ("llvmlite", "ziglang", "numpy", "onnx", "onnxruntime", "ai-edge-litert", "tflite")
_DEBIAN = ("libeigen3-dev", "libgemmlowp-dev")


def versions() -> dict[str, str]:
    """Return the versions of everything that affects figures; what is not installed is left out."""
    versions_of = {"mavcg": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        try:
            versions_of[name] = version(name)
        except PackageNotFoundError:
            continue
    if shutil.which("gcc"):
        versions_of["gcc"] = _output_of(["gcc", "-dumpfullversion"])
    if shutil.which("dpkg-query"):
        versions_of |= {
            name: text for name in _DEBIAN if (text := _output_of(["dpkg-query", "-W", "-f", "${Version}", name]))
        }
    return versions_of


def _output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def facts(kind: str, module: str) -> dict[str, Any]:
    """Return the head of every record. kind: "measured", "counted" or "modelled"; module: as for `python -m`."""
    return {
        "kind": kind,
        "command": f"python -m {module}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "machine": machine(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def write(name: str, record: Mapping[str, Any]) -> Path:
    """Write bench/results/<name>.json atomically, with digests of the code that bench/subjects.py names."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    write_whole(path, json.dumps(with_code(name, record), indent=2) + "\n")
    return path
