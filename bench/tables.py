"""The markdown tables of each bench's record; `python -m bench.tables [NAME ...]` prints records."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench import (
    arm_ncnn_tables,
    arm_peers_tables,
    blas_tables,
    headline_tables,
    length_tables,
    memory_tables,
    model_tables,
    paper_tables,
    records,
    selection_tables,
    silicon_tables,
    simulated_tables,
    thread_tables,
    unsure_tables,
)
from bench.accelerators import accelerator_tables, gpu_baselines, gpu_record, planner_tables
from bench.corpus import tables as corpus_tables
from bench.dispatch import WORDS
from bench.machine_tables import ir_split, machine_passes
from bench.record import RESULTS
from bench.silicon import core_facts
from bench.silicon.blind_table import blind_errors
from mavcg.errors import MavcgError

Record = Mapping[str, Any]
_OVER = {"over generic": "speed_over_generic", "over gcc -O3": "speed_over_gcc_O3"}


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a markdown table whose columns, except the first, are right-aligned."""
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, marks, *rows])


def versions(record: Record) -> str:
    """Return the table of each implementation's speed over gcc -O3."""
    builds = list(record["rows"][0]["ways"])
    base = "speed_over_gcc_O3" if "gcc -O3" in builds else "speed_over_generic"
    rows = [
        [f"{row['kernel']} ({row['work']})", *(_speed(row["ways"][build], base) for build in builds)]
        for row in record["rows"]
    ]
    over = "gcc -O3" if base.endswith("O3") else "the generic version"
    text = (
        f"Measured: microseconds a call, and in brackets speed over {over}; medians of {record['rounds']} interleaved "
    )
    text += "rounds, the second of each round's ratio. `*`: other bits than the generic version."
    return f"{text}\n\n{table(['kernel', *builds], rows)}\n\n{table(['geometric mean of', *_OVER], [_means(record)])}"


def _means(record: Record) -> list[str]:
    """Return the row of the speed of this core's version: that of the first core of the machine."""
    cores = record["cores"]
    if not cores:
        return ["this core's version", *(["none: the core is not known"] * len(_OVER))]
    ways = [row["ways"][f"mavcg {cores[0]}"] for row in record["rows"]]
    means = [
        f"{statistics.geometric_mean(way[key] for way in ways):.2f}" if all(key in way for way in ways) else "no gcc"
        for key in _OVER.values()
    ]
    return ["this core's version", *means]


def _speed(build: Record, base: str) -> str:
    return f"{build['median_us']:.0f} ({build[base]:.2f}){'' if build['same_bits_as_generic'] else '*'}"


def dispatch(record: Record) -> str:
    """Return the table of the cost per call of selecting a version."""
    runs = record["runs"]
    head = ["selection", *(f"over a direct call, {'with' if run['rseq'] else 'without'} rseq" for run in runs)]
    kinds = [kind for kind in runs[0]["ways"] if not kind.startswith("direct")]
    rows = [
        [WORDS.get(kind, kind), *(f"{run['ways'][kind]['over_direct_ns']:.1f} ns" for run in runs)] for kind in kinds
    ]
    return f"Measured: medians of {runs[0]['rounds']} interleaved rounds.\n\n" + table(head, rows)


def growth(record: Record) -> str:
    """Return the table of code growth with six clones, for an application or for small programs."""
    shares = "shared_selector_bytes" in record
    head = ["program", "functions", "versions (bodies)", "library", "growth"]
    head += ["with a shared selector"] if shares else []
    rows = [
        [
            f"{row['program']}: {row['what']}",
            row["functions"],
            f"{row['versions']} ({row['bodies']})",
            f"{row['library_bytes'] / 1000:.0f} kB",
            f"{row['growth_percent']:.2f} %",
            *([f"{row['growth_with_shared_selector_percent']:.2f} %"] if shares else []),
            f"{row['growth_of_own_code_percent']:.2f} % of {row['own_code_bytes'] / 1000:.0f} kB",
        ]
        for row in record["rows"]
    ]
    head.append("of its own code")
    text = (
        f"Counted: {', '.join(record['cores'])} and generic, for {record['target']}, the run-time selector included. "
    )
    text += "Each library holds what it uses of libc++ too, where it is C++."
    if shares:
        text += f" A shared selector is there once for all libraries, with {record['shared_selector_bytes']} bytes."
    return f"{text}\n\n" + table(head, rows)


def build_time(record: Record) -> str:
    """Return the table of the seconds of `mavcg build`."""
    head = ["program", "sources", "functions", "versions", "mavcg build"]
    rows = [
        [row["program"], row["sources"], row["functions"], row["versions"], f"{row['median_s']:.1f} s"]
        for row in record["rows"]
    ]
    text = f"Measured: {', '.join(record['cores'])} and generic, {record['jobs']} compilers at a time on "
    text += f"{record['cpus_allowed']} CPUs, ziglang's own libraries built before."
    return f"{text}\n\n" + table(head, rows)


def launch_cost(record: Record) -> str:
    """Return the table of the CPU seconds of `mavcg launch`."""
    head = ["file", "compiler", "board", "compiler alone", "under mavcg launch", "ratio", "again", "ratio, again"]
    rows = [
        [
            row["file"],
            row["compiler"],
            row["board"],
            f"{row['plain_s']:.2f} s",
            f"{row['launch_s']:.2f} s",
            f"{row['ratio']:.2f}",
            f"{row['again_s']:.2f} s",
            f"{row['again_ratio']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = f"Measured: CPU time, user and system, of all processes, interleaved; medians of {record['rounds']} rounds, "
    text += "so that other load matters little. Versions and schedules are not in the cache, but when compiled again."
    return f"{text}\n\n" + table(head, rows)


def _of_models(show: Callable[[Record, model_tables.Table], str]) -> Callable[[Record], str]:
    return lambda record: show(record, table)


TABLES: Mapping[str, tuple[str, Callable[[Record], str]]] = {
    "versions": ("A kernel's versions on this machine", versions),
    "dispatch": ("What choosing a version costs", dispatch),
    "growth": ("Code growth of six ARM clones", growth),
    "growth_app": ("Code growth of an application of TFLite's size", growth),
    "build_time": ("How long a build takes", build_time),
    "corpus": (corpus_tables.TITLE, lambda record: corpus_tables.corpus(record, table)),
    "launch_cost": ("What mavcg launch adds to a compiler's CPU time", launch_cost),
    "machine_passes": ("Kernels through the machine passes", lambda record: machine_passes(record, table)),
    "ir_split": ("Load splitting in LLVM IR beside the machine pass", lambda record: ir_split(record, table)),
    "silicon": (silicon_tables.TITLE, lambda record: silicon_tables.silicon(record, table)),
    "silicon_cores": ("Errors against silicon by core", lambda record: core_facts.errors(record, table)),
    "silicon_blind": ("Errors on projects that no fact was fitted to", lambda record: blind_errors(record, table)),
    "silicon_simulated": (
        silicon_tables.SIMULATED_TITLE,
        lambda record: silicon_tables.simulated(record, table),
    ),
    **{
        name: (title, _of_models(show))
        for name, (title, show) in {
            **model_tables.TABLES,
            **blas_tables.TABLES,
            **planner_tables.TABLES,
            **gpu_record.TABLES,
            **gpu_baselines.TABLES,
            **accelerator_tables.TABLES,
            **memory_tables.TABLES,
            **thread_tables.TABLES,
            **length_tables.TABLES,
            **paper_tables.TABLES,
            **selection_tables.TABLES,
            **simulated_tables.TABLES,
            **arm_peers_tables.TABLES,
            **arm_ncnn_tables.TABLES,
            **unsure_tables.TABLES,
            **headline_tables.TABLES,
        }.items()
    },
}


def summary(name: str, measured: Record) -> records.Record:
    """Return the record of what a bench measured.

    Raises: MavcgError where its tables have too many lines.
    """
    title, show = TABLES[name]
    return records.record_of(title, measured, show(measured))


def shown(record: records.Record) -> str:
    """Return a record as markdown: its title, its text and tables, and where they are from."""
    parts = [part if isinstance(part, str) else records.markdown(part) for part in record.parts]
    origin = f"{record.kind}; {record.where}; {record.date}; commit {record.commit}; `{record.command}`"
    return "\n\n".join([f"### {record.title}", *parts, origin]) + "\n"


def print_record(name: str, measured: Record) -> None:
    """Print what a bench measured, all of it or a part, as its record has it."""
    print(shown(summary(name, measured)))


def show_record(name: str, measured: Record, as_json: bool) -> None:
    """Print what a bench measured as JSON, or as its record has it."""
    if as_json:
        print(json.dumps(measured, indent=2))
    else:
        print_record(name, measured)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables of the records with these names, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bench/results; all where none is given")
    names = parser.parse_args(arguments).names or sorted(path.stem for path in RESULTS.glob("*.json"))
    try:
        print("\n".join(shown(records.read(RESULTS / f"{name}.json")) for name in names))
    except MavcgError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
