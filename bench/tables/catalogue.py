"""The tables of every record by its name, and records as text."""

import json

from bench import records
from bench.accelerators import accelerator_tables, gpu_tables, planner_tables
from bench.corpus import tables as corpus
from bench.tables import (
    arm_ncnn,
    arm_peers,
    headline,
    layers,
    lengths,
    machine_passes,
    memory,
    networks,
    papers,
    programs,
    real_files,
    robustness,
    selection,
    silicon,
    simulated,
    threads,
    tiles,
    unsure,
)
from bench.tables.markdown import Record, Tables

TABLES: Tables = {
    **programs.TABLES,
    **corpus.TABLES,
    **machine_passes.TABLES,
    **silicon.TABLES,
    **networks.TABLES,
    **layers.TABLES,
    **real_files.TABLES,
    **robustness.TABLES,
    **tiles.TABLES,
    **planner_tables.TABLES,
    **gpu_tables.TABLES,
    **accelerator_tables.TABLES,
    **memory.TABLES,
    **threads.TABLES,
    **lengths.TABLES,
    **papers.TABLES,
    **selection.TABLES,
    **simulated.TABLES,
    **arm_peers.TABLES,
    **arm_ncnn.TABLES,
    **unsure.TABLES,
    **headline.TABLES,
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
