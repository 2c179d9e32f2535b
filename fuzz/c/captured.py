"""Builds libraries as users do and keeps what they are linked from: `python -m fuzz.c.captured FOLDER`.

FOLDER/NAME gets, for each library, its kernels, constants and selector as objects, and its C with the headers that were
made for it, one folder a unit: build.sh compiles these with sanitizers, and a fuzz target is linked from all of it.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fuzz.c.drop_in_headers import CALLED, write_headers
from fuzz.inject.libraries import write_models
from fuzz.unit_compiler import compile_units_by
from mavcg.cli.app import run
from mavcg.model import link
from mavcg.model.blas import library
from mavcg.objects.library import link_shared
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

CORE = {"x86_64": "haswell", "aarch64": "cortex-a55"}  # whatever this machine is, the targets are the same
LIBRARIES: Mapping[str, Sequence[str]] = {
    "custom_ops": ("build", "dense.onnx", "--partial", "--shape", "x=1,4x64", "--also", CALLED),
    "delegate": ("build", "m.tflite", "--partial"),
    "blas": ("blas", "build"),
    "shapes": ("build", "ragged.onnx", "--shape", "x=1..6x1..20x16"),
    "states": ("build", "gru.onnx", "--state", "h=h_next"),
}


class Capture:
    """Stands in for the compiler of a library's C and for its linker, and keeps what they read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled: set[Path] = set()
        folder.mkdir()

    def compile(self, tool: str, arguments: Sequence[str], action: str, cwd: Path | None = None) -> str:
        """Run zig; keep the folder of C that it compiles."""
        said = run_zig(tool, arguments, action, cwd)
        sources = [Path(each) for each in arguments if each.endswith(".c")]
        if "-c" in arguments and sources:
            unit = self.folder / f"{len(self.compiled)}-{sources[0].stem}"
            unit.mkdir()
            for each in sources[0].parent.glob("*.[ch]"):
                shutil.copy(each, unit)
            self.compiled.add(Path(arguments[list(arguments).index("-o") + 1]))
        return said

    def link(self, objects: Sequence[Path], *rest: Any, **options: Any) -> None:
        """Link as ever; keep the objects that are not of that C."""
        link_shared(objects, *rest, **options)
        names = {path.name for path in self.compiled}
        for number, path in enumerate(objects):
            if path.name not in names:
                shutil.copy(path, self.folder / f"{number}-{path.stem}.o")


def capture(folder: Path, name: str, words: Sequence[str], models: Path) -> None:
    """Build one library into folder/name. Raises: SystemExit where mavcg refuses."""
    kept = Capture(folder / name)
    compile_units_by(kept.compile)
    for module in (link, library):
        module.link_shared = kept.link  # type: ignore[attr-defined]
    words = [str(models / word) if word.endswith((".onnx", ".tflite")) else word for word in words]
    status = run([*words, "--cores", CORE[host_target().arch], "--jobs", "1", "-o", str(models / f"lib{name}.so")])
    if status or not kept.compiled:
        raise SystemExit(f"fuzz.c.captured: {name}: mavcg ended with status {status}, {len(kept.compiled)} units of C")


def main(folder: Path) -> None:
    """Build all libraries."""
    models = folder / "models"
    models.mkdir()
    write_models(models)
    for name, words in LIBRARIES.items():
        capture(folder, name, words, models)
    write_headers(models, folder)
    shutil.rmtree(models)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
