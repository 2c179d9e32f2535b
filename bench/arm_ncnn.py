"""ncnn's own networks on simulated cores, beside the times that ncnn publishes of boards: `python -m bench.arm_ncnn`.

ncnn's build for aarch64 computes the networks of its benchmark in qemu, in a root where it sees the core
(bench/arm_root.py), as its program benchncnn does: zero weights, one thread, default options; two runs warm, the third
is simulated. Only cores without f16 arithmetic, where the defaults compute in f32. Published times and their source:
bench/arm_ncnn.toml. The networks' .param files are in a clone of github.com/Tencent/ncnn, in benchmark/models.

    python -m bench.arm_ncnn --params ncnn/benchmark/models
    python -m bench.arm_ncnn --params ncnn/benchmark/models --nets squeezenet --cores cortex-a53 --json rows.json
    python -m bench.arm_ncnn --table                    the rows that were simulated before

Rows that were simulated before are kept; --again simulates them again.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.arm_peers import say
from bench.arm_programs import run_options, simulated_program
from bench.arm_root import root_of, site_packages
from bench.record import facts, write
from bench.rows import measured_or_none
from bench.tables.arm_ncnn import FACTS, published
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.lab.simulate.process import process_json
from mavcg.profiles.load import load_core

NAME = "arm_ncnn"
CORES = tuple(dict.fromkeys(row["core"] for row in FACTS["published"] if "simulated" in row))
_PROGRAM = Path(__file__).resolve().with_name("arm_ncnn_run.py")


def simulated_row(network: str, core_name: str, params: Path, every: int) -> dict[str, Any]:
    """Return the row of one simulated run. Raises: MavcgError if ncnn fails."""
    core, board = load_core(core_name), published(core_name)[0]["simulated"]
    root, param = root_of(core), params / f"{network}.param"
    if not param.is_file():
        raise MavcgError(f"{param}: is not there; --params names benchmark/models of a clone of ncnn")
    python = [str(root / "usr/bin/python3.11"), "-I", str(_PROGRAM), str(site_packages())]
    command = [*python, str(param), str(FACTS["sides"][network])]
    simulation = simulated_program(command, core, board, root, every)
    if simulation.status:
        raise MavcgError(f"{network}: ncnn ended with status {simulation.status}")
    document = process_json(simulation)
    keys = ("cycles", "standard_error_cycles", "instructions", "stalls", "unmodelled", "unknown_addresses")
    return {"net": network, "core": core_name, "board": board, **{key: document[key] for key in keys}}


def with_row(known: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of the known rows and this one, which takes the place of an earlier one."""
    kept = [old for old in known.get("rows", ()) if (old["net"], old["core"]) != (row["net"], row["core"])]
    order = list(FACTS["sides"])
    rows = sorted([*kept, row], key=lambda entry: (entry["core"], order.index(entry["net"])))
    return {**facts("modelled", "bench.arm_ncnn"), "rows": rows}


def main(arguments: Sequence[str]) -> None:
    """Simulate what the arguments name, and write the rows and the record."""
    parser = run_options(__doc__)
    parser.add_argument("--params", type=Path, metavar="DIR", help="folder of the networks' .param files")
    parser.add_argument("--nets", default=",".join(FACTS["sides"]), help="networks of ncnn's benchmark (%(default)s)")
    parser.add_argument("--cores", default=",".join(CORES), help="(%(default)s)")
    parser.add_argument("--again", action="store_true", help="simulate rows again that are there already")
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
    networks, cores = options.nets.split(","), options.cores.split(",")
    unknown = [name for name in networks if name not in FACTS["sides"]] + [n for n in cores if n not in CORES]
    if unknown:
        raise MavcgError(f"{', '.join(unknown)}: there is none; --help lists networks and cores")
    if options.params is None:
        raise MavcgError("--params: name the folder benchmark/models of a clone of github.com/Tencent/ncnn")
    record: dict[str, Any] = {} if options.json is not None else measured_or_none(NAME)
    for core, network in itertools.product(cores, networks):
        known = any((row["net"], row["core"]) == (network, core) for row in record.get("rows", ()))
        if known and not options.again:
            continue
        try:
            row = simulated_row(network, core, options.params, options.every)
        except MavcgError as error:
            row = {"net": network, "core": core, "error": str(error)}
        say(f"{network} on {core}: {row.get('cycles', row.get('error'))}")
        record = with_row(record, row)
        if options.json is not None:
            write_whole(options.json, json.dumps({"rows": record["rows"]}, indent=1) + "\n")
        else:
            write(NAME, record)
    if options.json is None:
        print_record(NAME, record)


if __name__ == "__main__":
    main(sys.argv[1:])
