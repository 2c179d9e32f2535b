"""The records in bench/results/ as markdown tables: `python -m bench.tables [--update [PAGE ...]]`.

They are printed, or the pages' sections of the third level that have a table's title are made anew; without
names, those of docs/figures.md.
"""

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import (
    accelerator_tables,
    blas_tables,
    gpu_baselines,
    gpu_record,
    memory_tables,
    model_tables,
    paper_tables,
    planner_tables,
    selection_tables,
    silicon_tables,
    simulated_tables,
    thread_tables,
    unsure_tables,
)
from bench.dispatch import WORDS
from bench.machine_tables import ir_split, machine_passes
from bench.record import RESULTS, ROOT
from mavcg.files.whole_file import write_whole

Record = Mapping[str, Any]
PAGES = (ROOT / "docs" / "figures.md",)
COLUMNS = 120  # of a page's lines


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
    return f"{text}\n\n" + table(["kernel", *builds], rows)


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


def _of_models(show: Callable[[Record, model_tables.Table], str]) -> Callable[[Record], str]:
    return lambda record: show(record, table)


TABLES: Mapping[str, tuple[str, Callable[[Record], str]]] = {
    "versions": ("A kernel's versions on this machine", versions),
    "dispatch": ("What choosing a version costs", dispatch),
    "growth": ("Code growth of six ARM clones", growth),
    "growth_app": ("Code growth of an application of TFLite's size", growth),
    "build_time": ("How long a build takes", build_time),
    "machine_passes": ("Kernels through the machine passes", lambda record: machine_passes(record, table)),
    "ir_split": ("Load splitting in LLVM IR beside the machine pass", lambda record: ir_split(record, table)),
    "silicon": (silicon_tables.TITLE, lambda record: silicon_tables.silicon(record, table)),
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
            **paper_tables.TABLES,
            **selection_tables.TABLES,
            **simulated_tables.TABLES,
            **unsure_tables.TABLES,
        }.items()
    },
}


BRIEF = {name: (title, _of_models(show)) for name, (title, show) in model_tables.BRIEF.items()}


def section(name: str, record: Record, tables: Mapping[str, tuple[str, Callable[[Record], str]]] = TABLES) -> str:
    """Return a record's title, table and origin."""
    title, show = tables[name]
    about = record["machine"]
    commit = f"commit {record['commit']}" if "commit" in record else None
    where = [f"{about['processor']}, {about['cpus']} CPUs, virtual: {about['virtual']}", record.get("date"), commit]
    origin = f"{'; '.join(filter(None, where))}; `{record['command']}`"
    if record.get("old"):
        origin = f"**Old**, the code has changed since: {origin}"
    return f"### {title}\n\n{_wrap(show(record))}\n\n{_wrap(origin)}\n"


def _wrap(text: str) -> str:
    """Break the lines of a text at COLUMNS, except rows of tables."""
    lines = (
        [line]
        if line.startswith("|") or len(line) <= COLUMNS
        else textwrap.wrap(line, COLUMNS, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join(line for wrapped in lines for line in wrapped)


def updated(text: str, sections: Mapping[str, str]) -> str:
    """Return a text whose third-level sections with these titles, up to the next heading, are replaced.

    Raises: KeyError for a title that the text does not have.
    """
    for title, body in sections.items():
        match = re.search(rf"^### {re.escape(title)}\n.*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        if match is None:
            raise KeyError(title)
        text = f"{text[: match.start()]}{body}\n{text[match.end() :]}"
    return text


def _sections() -> dict[str, str]:
    """Return the sections of all existing records, by title."""
    sections = {}
    for name, (title, _) in TABLES.items():
        path = RESULTS / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text())
            sections[title] = section(name, record)
            if name in BRIEF:
                sections[BRIEF[name][0]] = section(name, record, BRIEF)
        elif name not in model_tables.OPTIONAL:
            print(f"bench.tables: {path} is not there; run `python -m bench.all`", file=sys.stderr)
    return sections


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables, or update pages; tables without a section in any page are reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", type=Path, nargs="*", metavar="PAGE", help="put them into these pages")
    pages = parser.parse_args(arguments).update
    sections = _sections()
    if pages is None:
        print("\n".join(sections.values()))
        return
    absent = set(sections)
    for page in pages or PAGES:
        text = page.read_text()
        here = {title: body for title, body in sections.items() if f"### {title}\n" in text}
        absent -= set(here)
        write_whole(page, updated(text, here))
    for title in sorted(absent):
        print(f"bench.tables: no page has a section '{title}'", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
