"""The commands into which failures of files and processes are injected, with the files that they read and write."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

CODE = "void scale(float *x, int n) { for (int i = 0; i < n; i++) x[i] = x[i] * 2.0f + 1.0f; }\n"


@dataclass(frozen=True)
class Scenario:
    """A command line. prepare: writes what it reads into its folder. cold: its cache is empty before each run.

    plainly: another command line whose files are right too, where failures leave these.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    cold: bool = False
    plainly: tuple[str, ...] = ()


def _code(folder: Path) -> None:
    (folder / "k.c").write_text(CODE)


def _project(folder: Path) -> None:
    _code(folder)
    (folder / "mavcg.toml").write_text('[build]\nhot = ["scale"]\ncores = ["skylake"]\n')


def _models(folder: Path) -> None:
    from fuzz.inject.libraries import write_models

    write_models(folder)


def _samples(folder: Path) -> None:
    import numpy as np

    _models(folder)
    (folder / "samples").mkdir()
    np.save(folder / "samples/0.npy", np.linspace(-1, 1, 32 * 40 * 40, dtype=np.float32).reshape(1, 32, 40, 40))


_PROGRAM = ("build", "--source", "k.c", "--hot", "scale", "--cores", "cortex-a55", "-o", "libk.so")
_MODEL = ("build", "dense.onnx", "--shape", "x=4x64", "--board", "host", "-o", "libd.so")
_GCC = ("gcc", "-O2", "-c", "k.c", "-o", "k.o")
_TUNE = ("tune", "conv.onnx", "--runner", "simulate", "--board", "rk3588", "--db", "costs.sqlite")

SCENARIOS: Mapping[str, Scenario] = {
    "build of a program": Scenario(_PROGRAM, _code),
    "build without a cache": Scenario(_PROGRAM, _code, cold=True),
    "build of a model": Scenario(_MODEL, _models),
    "launch": Scenario(("launch", *_GCC), _project, plainly=_GCC),  # where it cannot, the compiler's object stays
    "quantise": Scenario(("quantise", "conv.onnx", "--inputs", "samples", "-o", "q.onnx"), _samples),
    "app build": Scenario(("app", "build", "app.toml", "--board", "host", "-o", "libapp.so"), _models),
    "accel build": Scenario(("accel", "build", "conv.onnx", "--target", "small", "-o", "net.elf"), _models),
    "tune": Scenario(_TUNE, _models),
}
