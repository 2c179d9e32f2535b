"""Other runtimes' own Arm builds beside mavcg's libraries, on the same simulated cores: `python -m bench.arm_peers`.

Each runtime computes a network in qemu, on one thread, in a root where it sees the core (bench/arm_root.py): two runs
warm, the third is simulated, from the first instruction to the last. The peers are run from Python as in
bench/peers.py, so that a few thousand instructions of Python are in their figures; mavcg's library by a program in C.
Cycles are simulated, instructions counted: neither depends on what else this machine does. Each output is compared
with onnxruntime's on this machine, so that a wrong network does not count. It needs Debian's package qemu-user.

Rows are kept in bench/arm_peer_rows.json, each with its commit, and a record is made of all of them. A peer is
simulated only where it has no row that holds (bench/arm_peer_rows.py), mavcg's library always.

    python -m bench.arm_peers --prepare                                  fetch and convert; then nothing is fetched
    python -m bench.arm_peers --nets squeezenet-random --cores cortex-a55 --json rows.json
    python -m bench.arm_peers --missing                                  go on after a run that was cut off
    python -m bench.arm_peers --table                                    the rows that were simulated before
"""

import argparse
import datetime
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.arm_peer_rows import (
    ROWS_FILE,
    Row,
    checked_rows,
    facts_version,
    kept_row,
    key_of,
    read_rows,
    same_cycles,
    version_of,
    with_rows,
    write_rows,
)
from bench.arm_programs import BOARDS, run_options, simulated, simulated_library
from bench.arm_root import debian, site_packages
from bench.peer_models import prepared
from bench.peers import difference, model_name
from bench.record import commit, facts, write
from bench.runners import HALF_RUNTIMES, RUNTIMES
from bench.tables.arm_peers import PEERS
from bench.worker import seeded_inputs
from mavcg.choose.algorithms.costs.cost_version import simulator_version
from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.lab.simulate.process import ProcessSimulation, process_json
from mavcg.lab.simulate.process_emulator import emulated_midr
from mavcg.profiles.load import load_core

NAME = "arm_peers"
NETWORKS = ("squeezenet-random", "mobilenet_v1-random")
CORES = ("cortex-a55", "cortex-a76")
DTYPES = ("f32", "f16")


def row_of(simulation: ProcessSimulation, core: Core) -> dict[str, Any]:
    """Return what one simulated run took."""
    document = process_json(simulation)
    return {
        "board": BOARDS[core.name],
        "midr": f"{emulated_midr(core):#x}",
        "cycles": document["cycles"],
        "instructions": document["instructions"],
        "misses": {level: counts["misses"] for level, counts in document["caches"].items()},
        "lines_read": document["memory"]["lines_read"],
        "branches_missed": document["branches"]["missed"],
        "unmodelled": document["unmodelled"],
        "unknown_addresses": document["unknown_addresses"],
    }


@dataclass(frozen=True)
class Bench:
    """Settings that all rows of a run share.

    libraries: a folder for mavcg's libraries. every: time a sample in every so many instructions; 0: all. simulator,
    commit: versions of the simulator's code and of this checkout.
    """

    libraries: Path
    every: int
    simulator: str
    commit: str

    def row(self, network: str, core: Core, runtime: str, dtype: str) -> dict[str, Any]:
        """Simulate one run, and return its row; that of a runtime that cannot run the network has an `error`."""
        say(f"{network} on {core.name}: {runtime}, {dtype}")
        row: dict[str, Any]
        row = {"core": core.name, "net": network, "dtype": dtype, "runtime": runtime, "version": version_of(runtime)}
        row |= {"facts": facts_version(core), "simulator": self.simulator, "commit": self.commit}
        row |= {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")}
        try:
            if runtime == "mavcg":
                simulation, outputs = simulated_library(network, core, dtype, self.libraries, self.every)
            else:
                ready = prepared(network, [runtime])
                if runtime in ready.reasons:
                    raise MavcgError(ready.reasons[runtime])
                simulation, outputs = simulated(core, runtime, dtype, ready.files[runtime], self.every)
        except MavcgError as error:
            say(f"  {error}")
            return {**row, "error": str(error)}
        row |= row_of(simulation, core)
        row["difference"] = float(f"{float(difference(outputs, reference_outputs(network))):.2e}")
        say(f"  {row['cycles']:,} cycles, {row['instructions']:,} instructions, difference {row['difference']:.1e}")
        return row


def refreshed(rows: Sequence[Row], core: Core, dtype: str, bench: Bench) -> list[Row]:
    """Return the rows after a change of the simulator's code: those of peers on a core and type, kept or without them.

    One is simulated again: where its cycles are the same, all get the new version of the code, else all are dropped.
    """
    old = checked_rows(rows, core, dtype, bench.simulator)
    if not old:
        return list(rows)
    again = bench.row(old[0]["net"], core, old[0]["runtime"], dtype)
    if same_cycles(old[0], again):
        return with_rows(rows, [{**row, "simulator": bench.simulator} for row in old])
    say(f"  {old[0]['cycles']:,} cycles before: rows of {core.name} in {dtype} are simulated again")
    dropped = {key_of(row) for row in old}
    return with_rows([row for row in rows if key_of(row) not in dropped], [again])


@cache
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


def main(arguments: Sequence[str]) -> None:
    """Simulate what the arguments name, and write the rows and the record."""
    parser = run_options(__doc__)
    parser.add_argument("--nets", default=",".join(NETWORKS), help="networks of bench.models (%(default)s)")
    parser.add_argument("--cores", default=",".join(CORES), help=f"of {', '.join(BOARDS)} (%(default)s)")
    parser.add_argument("--runtimes", default=",".join((*PEERS, "mavcg")), help="(%(default)s)")
    parser.add_argument(
        "--dtypes", default=",".join(DTYPES), help="of f32 and f16; f16 of ncnn, mnn and mavcg (%(default)s)"
    )
    parser.add_argument(
        "--missing", action="store_true", help="keep rows of mavcg, too, as after a run that was cut off"
    )
    parser.add_argument("--prepare", action="store_true", help="fetch and convert only")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except MavcgError as error:
        parser.error(str(error))


def _run(options: argparse.Namespace) -> None:
    from bench.tables.catalogue import print_record

    path = options.json or ROWS_FILE
    if options.table:
        print_record(NAME, _record(read_rows(path)))
        return
    networks = [model_name(name) for name in options.nets.split(",")]
    runtimes = options.runtimes.split(",")
    unknown = [name for name in options.cores.split(",") if name not in BOARDS]
    unknown += [name for name in runtimes if name not in (*PEERS, "mavcg")]
    unknown += [name for name in options.dtypes.split(",") if name not in DTYPES]
    if unknown:
        raise MavcgError(f"{', '.join(unknown)}: there is none; --help lists cores, runtimes and types")
    if options.every and options.json is None:
        raise MavcgError("--every: rows of samples are not kept beside whole ones; name a file of their own by --json")
    cores = [load_core(name) for name in options.cores.split(",")]
    if options.prepare:
        debian(), site_packages()
        for network in networks:
            for runtime, reason in prepared(network, [name for name in runtimes if name != "mavcg"]).reasons.items():
                say(f"{network}: {runtime}: {reason}")
        return
    rows = read_rows(path)
    with tempfile.TemporaryDirectory() as libraries:
        bench = Bench(Path(libraries), options.every, simulator_version(), commit())
        for core, dtype in itertools.product(cores, options.dtypes.split(",")):
            if set(runtimes) - {"mavcg"} and computes("ncnn", dtype, core):
                rows = refreshed(rows, core, dtype, bench)
            for network, runtime in itertools.product(networks, runtimes):
                kept = kept_row(rows, (core.name, network, dtype, runtime), core)
                if not computes(runtime, dtype, core) or kept and (runtime != "mavcg" or options.missing):
                    continue
                rows = with_rows(rows, [bench.row(network, core, runtime, dtype)])
                write_rows(path, rows)
                if options.json is None:
                    write(NAME, _record(rows))
    write_rows(path, rows)
    print_record(NAME, _record(rows))


def _record(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the record of these rows. Its commit is that of most of mavcg's rows: a run may be of some of them."""
    commits = Counter(row["commit"] for row in rows if row["runtime"] == "mavcg")
    record = {**facts("modelled", "bench.arm_peers"), "rows": rows}
    return record | {"commit": max(commits, key=lambda name: commits[name])} if commits else record


if __name__ == "__main__":
    main(sys.argv[1:])
