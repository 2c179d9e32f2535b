"""Other runtimes' own Arm builds beside mavcg's libraries, on the same simulated cores: `python -m bench.arm_peers`.

Each runtime computes a network in qemu, on one thread, in a root where it sees the core (bench/arm_root.py): two runs
warm, the third is simulated, from the first instruction to the last. The peers are run from Python as in
bench/peers.py, so that a few thousand instructions of Python are in their figures; mavcg's library by a program in C.
Cycles are simulated, instructions counted: neither depends on what else this machine does. Each output is compared
with onnxruntime's on this machine, so that a wrong network does not count. It needs Debian's package qemu-user.

    python -m bench.arm_peers --prepare                                  fetch and convert; then nothing is fetched
    python -m bench.arm_peers --nets squeezenet-random --cores cortex-a55 --json rows.json
    python -m bench.arm_peers --missing                                  go on after a run that was cut off
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

from bench.arm_programs import BOARDS, run_options, simulated, simulated_library
from bench.arm_root import debian, site_packages
from bench.peer_models import prepared
from bench.peers import difference, model_name
from bench.record import facts, measured_or_none, write
from bench.runners import HALF_RUNTIMES, RUNTIMES
from bench.tables.arm_peers import PEERS
from bench.worker import seeded_inputs
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.hardware.core import Core
from mavcg.lab.simulate.process import ProcessSimulation, process_json
from mavcg.lab.simulate.process_emulator import emulated_midr
from mavcg.profiles.load import load_core

NAME = "arm_peers"
NETWORKS = ("squeezenet-random", "mobilenet_v1-random")
CORES = ("cortex-a55", "cortex-a76")
DTYPES = ("f32", "f16")


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


def without_known(
    runtimes: Sequence[str], network: str, core: Core, dtype: str, rows: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the runtimes of which these rows have none for a network, core and type; one with an error counts."""
    there = {row["runtime"] for row in rows if (row["net"], row["core"], row["dtype"]) == (network, core.name, dtype)}
    return [name for name in runtimes if name not in there]


def _known_rows(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a file, or those that were measured before on this machine; none if there is no file."""
    if path is None:
        return list(measured_or_none(NAME).get("rows", ()))
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else []


def main(arguments: Sequence[str]) -> None:
    """Simulate what the arguments name, and write the rows and the record."""
    parser = run_options(__doc__)
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
    parser.add_argument(
        "--missing", action="store_true", help="leave out rows that are there already, as after a run that was cut off"
    )
    parser.add_argument("--prepare", action="store_true", help="fetch and convert only")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except MavcgError as error:
        parser.error(str(error))


def _run(options: argparse.Namespace) -> None:
    from bench.tables.catalogue import print_record

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
    known = _known_rows(options.json) if options.missing else []
    rows = list(known) if options.json is not None else []
    with tempfile.TemporaryDirectory() as libraries:
        for core, network, dtype in itertools.product(cores, networks, options.dtypes.split(",")):
            able = without_known(
                [name for name in runtimes if computes(name, dtype, core)], network, core, dtype, known
            )
            if not able:
                continue
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
