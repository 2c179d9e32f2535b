"""Other runtimes' own Arm builds beside mavcg's libraries, on the same simulated cores: `python -m bench.arm_peers`.

Each runtime computes a network in qemu, on one thread, in a root where it sees the core (bench/arm_root.py): two runs
warm, the third is simulated, from the first instruction to the last. The peers are run from Python as in
bench/peers.py, so that a few thousand instructions of Python are in their figures; mavcg's library by a program in C.
Cycles are simulated, instructions counted: neither depends on what else this machine does. Each output is compared
with onnxruntime's on this machine, so that a wrong network does not count. It needs Debian's package qemu-user.

    python -m bench.arm_peers --prepare                                  fetch and convert; then nothing is fetched
    python -m bench.arm_peers --nets squeezenet-random --cores cortex-a55 --json rows.json
    python -m bench.arm_peers --table                                    the rows that were simulated before
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.arm_peers_tables import PEERS
from bench.arm_root import debian, root_of, site_packages
from bench.models import model_path, shapes_of
from bench.peer_models import prepared
from bench.peers import difference, model_name
from bench.record import facts, measured_or_none, write
from bench.runners import HALF_RUNTIMES, RUNTIMES, Runner
from bench.worker import seeded_inputs
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.hardware.core import Core
from mavcg.lab.simulate.process import ProcessOptions, ProcessSimulation, process_json, simulate_process
from mavcg.lab.simulate.process_emulator import CallRegion, emulated_midr
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig

NAME = "arm_peers"
NETWORKS = ("squeezenet-random", "mobilenet_v1-random")
# A board that has the core: caches, clock and memory of all runtimes' figures.
BOARDS = {
    "cortex-a53": "rk3399",
    "cortex-a55": "rk3588",
    "cortex-a72": "rk3399",
    "cortex-a75": "exynos9820",
    "cortex-a76": "rk3588",
    "cortex-a510": "snapdragon-8-gen-1",
}
CORES = ("cortex-a55", "cortex-a76")
DTYPES = ("f32", "f16")
MARK = "getppid"  # called before and after the simulated run (bench/arm_peers_run.py, bench/arm_library.c)
_HERE = Path(__file__).resolve().parent
_TARGET = "aarch64-linux-gnu.2.17"


def simulated(core: Core, runtime: str, dtype: str, model: Path, every: int) -> tuple[ProcessSimulation, list[Any]]:
    """Simulate one run of a peer, and return it with the outputs. Raises: MavcgError if the runtime fails."""
    root = root_of(core)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.npz"
        python = [str(root / "usr/bin/python3.11"), "-I", str(_HERE / "arm_peers_run.py"), str(site_packages())]
        simulation = _simulate([*python, runtime, dtype, str(model), str(output)], core, root, every)
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
        simulation = _simulate([str(program), str(library), str(output), *map(str, files)], core, root, every)
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


def _simulate(command: Sequence[str], core: Core, root: Path, every: int) -> ProcessSimulation:
    options = ProcessOptions(CallRegion(MARK, 1, 1, True), every=every, sysroot=root, output=sys.stderr.fileno())
    return simulate_process(command, core, load_timing(core), load_board(BOARDS[core.name]), options)


def row_of(network: str, core: Core, runtime: str, dtype: str, simulation: ProcessSimulation) -> dict[str, Any]:
    """Return the row of one simulated run."""
    document = process_json(simulation)
    return {
        "net": network,
        "core": core.name,
        "board": BOARDS[core.name],
        "midr": f"{emulated_midr(core):#x}",
        "runtime": runtime,
        "dtype": dtype,
        "cycles": document["cycles"],
        "standard_error_cycles": document["standard_error_cycles"],
        "instructions": document["instructions"],
        "misses": {level: counts["misses"] for level, counts in document["caches"].items()},
        "lines_read": document["memory"]["lines_read"],
        "branches_missed": document["branches"]["missed"],
        "stalls": document["stalls"],
        "unmodelled": document["unmodelled"],
        "unknown_addresses": document["unknown_addresses"],
        "forms_without_facts": len(simulation.unmodelled),
    }


def rows_of(
    network: str, core: Core, runtimes: Sequence[str], dtype: str, libraries: Path, every: int
) -> Iterator[dict[str, Any]]:
    """Yield the row of each runtime on a core; that of a runtime that cannot run the network has an `error`."""
    ready = prepared(network, [runtime for runtime in runtimes if runtime != "mavcg"])
    reference = reference_outputs(network)
    for runtime in runtimes:
        say(f"{network} on {core.name}: {runtime}, {dtype}")
        try:
            if runtime in ready.reasons:
                raise MavcgError(ready.reasons[runtime])
            if runtime == "mavcg":
                simulation, outputs = simulated_library(network, core, dtype, libraries, every)
            else:
                simulation, outputs = simulated(core, runtime, dtype, ready.files[runtime], every)
        except MavcgError as error:
            yield {"net": network, "core": core.name, "runtime": runtime, "dtype": dtype, "error": str(error)}
            say(f"  {error}")
            continue
        row = row_of(network, core, runtime, dtype, simulation)
        row["difference"] = float(difference(outputs, reference))
        say(f"  {row['cycles']:,} cycles, {row['instructions']:,} instructions, difference {row['difference']:.1e}")
        yield row


def reference_outputs(network: str) -> list[Any]:
    """Return the outputs of onnxruntime on this machine, flat."""
    runner = RUNTIMES["onnxruntime"](prepared(network, ["onnxruntime"]).files["onnxruntime"], 1, False)
    return [np.asarray(output).ravel() for output in runner.run(seeded_inputs(runner))]


def computes(runtime: str, dtype: str, core: Core) -> bool:
    """True if a runtime has an option to compute in this type, and the core the instructions."""
    return dtype == "f32" or ("fullfp16" in core.extensions and runtime in (*HALF_RUNTIMES, "mavcg"))


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def with_rows(known: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a record of this run's rows, and of those before of other networks, cores and runtimes."""

    def key(row: Mapping[str, Any]) -> tuple[str, ...]:
        return row["net"], row["core"], row["runtime"], row["dtype"]

    new = {key(row) for row in rows}
    kept = [row for row in known.get("rows", ()) if key(row) not in new]
    return {**facts("modelled", "bench.arm_peers"), "rows": sorted([*kept, *rows], key=key)}


def main(arguments: Sequence[str]) -> None:
    """Simulate what the arguments name, and write the rows and the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(NETWORKS), help="networks of bench.models (%(default)s)")
    parser.add_argument("--cores", default=",".join(CORES), help=f"of {', '.join(BOARDS)} (%(default)s)")
    parser.add_argument(
        "--runtimes", default=",".join((*PEERS, "mavcg")), help="(%(default)s); the first is compared with"
    )
    parser.add_argument(
        "--dtypes",
        default=",".join(DTYPES),
        help="of f32 and f16; f16 of ncnn, mnn and mavcg (%(default)s)",
    )
    parser.add_argument("--every", type=int, default=0, help="time a sample in every so many instructions; default all")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the rows to this file, and no record")
    parser.add_argument("--prepare", action="store_true", help="fetch and convert only")
    parser.add_argument("--table", action="store_true", help="print what was simulated before")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except MavcgError as error:
        parser.error(str(error))


def _run(options: argparse.Namespace) -> None:
    from bench.tables import print_record

    if options.table:
        print_record(NAME, measured_or_none(NAME))
        return
    networks = [model_name(name) for name in options.nets.split(",")]
    runtimes = options.runtimes.split(",")
    unknown = [name for name in options.cores.split(",") if name not in BOARDS]
    unknown += [name for name in runtimes if name not in (*PEERS, "mavcg")]
    if unknown:
        raise MavcgError(f"{', '.join(unknown)}: there is none; --help lists cores and runtimes")
    unknown += [name for name in options.dtypes.split(",") if name not in DTYPES]
    cores = [load_core(name) for name in options.cores.split(",")]
    if options.prepare:
        debian(), site_packages()
        for network in networks:
            for runtime, reason in prepared(network, [name for name in runtimes if name != "mavcg"]).reasons.items():
                say(f"{network}: {runtime}: {reason}")
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as libraries:
        for core, network, dtype in itertools.product(cores, networks, options.dtypes.split(",")):
            able = [name for name in runtimes if computes(name, dtype, core)]
            for row in rows_of(network, core, able, dtype, Path(libraries), options.every):
                rows.append(row)
                if options.json is not None:
                    write_whole(options.json, json.dumps({"rows": rows}, indent=1) + "\n")
                else:
                    write(NAME, with_rows(measured_or_none(NAME), rows))
    if options.json is None:
        print_record(NAME, measured_or_none(NAME))


if __name__ == "__main__":
    main(sys.argv[1:])
