"""Writing of a bench's results: the measured rows into build/bench/, and the record of them into bench/results/.

The rows are a bench's own, to go on from or to fit constants to; the repository does not have them. The record is what
pages print: bench/records.py.
"""

import argparse
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

from bench import records
from bench.machine import machine
from bench.records import RESULTS, ROOT
from bench.rows import ROWS
from bench.tables.catalogue import summary
from mavcg import __version__
from mavcg.files.whole_file import write_whole

_PACKAGES = ("llvmlite", "ziglang", "numpy", "onnx", "onnxruntime", "ai-edge-litert", "tflite")
_MADE = ("bench/results", "bench/arm_peer_rows.json", "docs/figures.md", "docs/pictures", "README.md")
_DEBIAN = ("libeigen3-dev", "libgemmlowp-dev")


def parser_with_json(description: str | None, shown: str) -> argparse.ArgumentParser:
    """Return the parser of a bench's command line, with --json, which prints what is `shown`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help=f"print {shown}")
    return parser


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


def commit() -> str:
    """Return the commit that is checked out, with "-dirty" where files differ that are not made from records."""
    git = ("git", "-C", str(ROOT))
    made = [f":(exclude){path}" for path in _MADE]
    head = _output_of([*git, "rev-parse", "--short", "HEAD"])
    return f"{head}{'-dirty' if _output_of([*git, 'status', '--porcelain', '--', '.', *made]) else ''}" or "none"


def facts(kind: str, module: str) -> dict[str, Any]:
    """Return the head of every record. kind: "measured", "counted" or "modelled"; module: as for `python -m`."""
    return {
        "kind": kind,
        "command": f"python -m {module}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": machine(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def write(name: str, rows: Mapping[str, Any]) -> Path:
    """Write what was measured to build/bench/<name>.json, and its record to bench/results/<name>.json.

    Raises: MavcgError where the bench's tables have too many lines for a record.
    """
    record = summary(name, rows)
    ROWS.mkdir(parents=True, exist_ok=True)
    write_whole(ROWS / f"{name}.json", json.dumps(rows, indent=1) + "\n")
    path = RESULTS / f"{name}.json"
    records.write(path, record)
    return path
