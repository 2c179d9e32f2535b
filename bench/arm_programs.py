"""Simulated runs of other runtimes and of mavcg's libraries in qemu, between two calls of getppid."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.arm_root import root_of, site_packages
from bench.models import model_path, shapes_of
from bench.runners import Runner
from bench.worker import seeded_inputs
from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.lab.simulate.process import ProcessOptions, ProcessSimulation, simulate_process
from mavcg.lab.simulate.process_emulator import CallRegion
from mavcg.profiles.load import load_board
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig

# A board that has the core: caches, clock and memory of all runtimes' figures.
BOARDS = {
    "cortex-a53": "rk3399",
    "cortex-a55": "rk3588",
    "cortex-a72": "rk3399",
    "cortex-a75": "exynos9820",
    "cortex-a76": "rk3588",
    "cortex-a510": "snapdragon-8-gen-1",
}
MARK = "getppid"  # called before and after the simulated run (bench/arm_peers_run.py, arm_ncnn_run.py, arm_library.c)
_HERE = Path(__file__).resolve().parent
_TARGET = "aarch64-linux-gnu.2.17"


def run_options(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a command that simulates runs: how much is timed, and where the rows go."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=0, help="time a sample in every so many instructions; default all")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the rows to this file, and no record")
    parser.add_argument("--table", action="store_true", help="print what was simulated before")
    return parser


def simulated(core: Core, runtime: str, dtype: str, model: Path, every: int) -> tuple[ProcessSimulation, list[Any]]:
    """Simulate one run of a peer, and return it with the outputs. Raises: MavcgError if the runtime fails."""
    root = root_of(core)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.npz"
        python = [str(root / "usr/bin/python3.11"), "-I", str(_HERE / "arm_peers_run.py"), str(site_packages())]
        simulation = simulated_program(
            [*python, runtime, dtype, str(model), str(output)], core, BOARDS[core.name], root, every
        )
        if not output.exists():
            raise MavcgError(f"{runtime}: ended with status {simulation.status} without a result")
        with np.load(output) as file:
            return simulation, [file[name].ravel() for name in file.files]


def simulated_library(
    network: str, core: Core, dtype: str, libraries: Path, every: int
) -> tuple[ProcessSimulation, list[Any]]:
    """Simulate one run of mavcg's library, and return it with the outputs.

    libraries: a folder that keeps libraries for other cores of the same board.
    Raises: MavcgError if the network cannot be built or the library fails.
    """
    root, library = root_of(core), built_for_board(network, BOARDS[core.name], dtype, libraries)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        program, output = folder / "arm_library", folder / "output.bin"
        include = f"-I{_HERE.parent / 'runtime/csrc'}"
        words = ["-target", _TARGET, "-O2", include, str(_HERE / "arm_library.c"), "-ldl", "-o", str(program)]
        run_zig("cc", words, "building the program that runs a library")
        shape = next(iter(shapes_of(network).values()), None) or _shape_of(network)
        seeded = Runner("", [(tuple(shape), np.dtype(np.float32))], [], lambda arrays: arrays)
        files = []
        for number, array in enumerate(seeded_inputs(seeded)):
            files.append(folder / f"{number}.bin")
            array.tofile(files[-1])
        simulation = simulated_program(
            [str(program), str(library), str(output), *map(str, files)], core, BOARDS[core.name], root, every
        )
        if simulation.status or not output.exists():
            raise MavcgError(f"mavcg: ended with status {simulation.status} without a result")
        return simulation, [np.fromfile(output, dtype=np.float32)]


def _shape_of(network: str) -> Sequence[int]:
    import onnx

    graph = onnx.load(model_path(network), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    (source,) = [value for value in graph.input if value.name not in weights]
    return [dim.dim_value or 1 for dim in source.type.tensor_type.shape.dim]


def built_for_board(network: str, board: str, dtype: str, libraries: Path) -> Path:
    """Return the library of a network for a board, built if the folder does not have it. Raises: MavcgError."""
    from mavcg.model.model import build_model
    from mavcg.model.request import ModelOptions, make_model_request

    library = libraries / f"{network}-{board}-{dtype}" / "libmodel.so"
    if not library.exists():
        library.parent.mkdir()
        shapes = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes_of(network).items()]
        options = ModelOptions(board=board, shapes=shapes, jobs=1, precision=None if dtype == "f32" else dtype)
        request, _ = make_model_request(model_path(network), str(library), options)
        build_model(request)
    return library


def simulated_program(command: Sequence[str], core: Core, board: str, root: Path, every: int) -> ProcessSimulation:
    """Simulate what a program does between its two calls of MARK.

    every: time a sample in every so many instructions; 0: all. Raises: MavcgError where the emulator cannot run it.
    """
    options = ProcessOptions(CallRegion(MARK, 1, 1, True), every=every, sysroot=root, output=sys.stderr.fileno())
    return simulate_process(command, core, load_timing(core), load_board(board), options)
