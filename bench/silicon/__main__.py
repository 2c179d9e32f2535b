"""Published silicon figures against the pipeline models: `python -m bench.silicon --clone dav1d=FOLDER ...`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.record import facts, write
from bench.records import ROOT
from bench.silicon.compare import Row, rows_of
from bench.silicon.figures import HELD_OUT, LOT_SEED, read_lists
from bench.silicon.models import MODELS
from bench.silicon.runs import clone_paths
from bench.silicon.summary import summary
from mavcg.errors import MavcgError


def main(arguments: list[str] | None = None) -> int:
    """Compare, print a table, and write bench/results/silicon.json unless figures were left out."""
    lists = read_lists()
    parser = argparse.ArgumentParser(prog="python -m bench.silicon", description=__doc__)
    parser.add_argument(
        "--clone", action="append", default=[], metavar="NAME=FOLDER", help="a clone of a list's source"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="these lists alone; no record")
    parser.add_argument("--core", action="append", default=[], help="these cores alone; no record")
    parser.add_argument("--model", default="analytic", choices=sorted(MODELS))
    parser.add_argument("--rows", action="store_true", help="print every figure beside the model's")
    parser.add_argument("--blind", action="store_true", help="the blind projects alone; their own record")
    parser.add_argument("--before", type=Path, help="an earlier record, to stand beside the new one")
    options = parser.parse_args(arguments)
    if not options.only:  # blind projects have a record of their own
        lists = tuple(source for source in lists if options.blind == any(figure.blind for figure in source.figures))
    try:
        clones = clone_paths(options.clone, {source.name: source.url for source in lists})
        rows: list[Row] = []
        for source in lists:
            if options.only and source.name not in options.only:
                continue
            print(f"bench.silicon: {source.name}, {len(source.figures)} figures", file=sys.stderr, flush=True)
            for row in rows_of(source, clones.get(source.name), MODELS[options.model], tuple(options.core)):
                rows.append(row)
                if options.rows:
                    print(_line(row), flush=True)
    except MavcgError as error:
        parser.error(str(error))
    figures = summary(rows)
    _show(figures)
    missing = [s.name for s in lists if s.folders and s.name not in clones]
    if options.only or options.core or missing:
        left = f"; no clone of {', '.join(missing)}" if missing else ""
        print(f"no record: not all figures were compared{left}", file=sys.stderr)
        return 0
    earlier = json.loads(options.before.read_text()) if options.before else None
    of_model = "" if options.model == "analytic" else f" --model {options.model}"
    if options.blind:
        if options.model != "analytic":
            print("no record: that of blind projects is of the analytic models", file=sys.stderr)
            return 0
        record = facts("modelled", "bench.silicon --blind")
        record["rows"] = [{"project": row.figure.source, **as_json(row)} for row in rows]
        print(f"written: {write('silicon_blind', record).relative_to(ROOT)}")
        return 0
    record = facts("modelled", f"bench.silicon{of_model}")
    record |= {"model": options.model, "lot_seed": LOT_SEED, "held_out_share": HELD_OUT, **figures}
    if earlier is not None:
        record["before"] = {key: earlier[key] for key in ("date", "model", "cores", "changes")}
    record["rows"] = [as_json(row) for row in rows]
    name = "silicon" if options.model == "analytic" else f"silicon_{options.model}"
    names = [name, "silicon_cores"] if name == "silicon" else [name]
    for each in names:
        print(f"written: {write(each, record).relative_to(ROOT)}")
    return 0


def _line(row: Row) -> str:
    figure = row.figure
    told = f"{row.modelled:.2f} {row.error:+.1%}" if row.modelled is not None and row.error is not None else row.why
    held_out = " held out" if figure.held_out else " blind" if figure.blind else ""
    return f"{figure.core} {figure.name} {figure.kind} {figure.when}: {figure.value:.2f}, {told}{held_out}"


def as_json(row: Row) -> dict[str, Any]:
    """Return a figure beside the model's, as it is kept."""
    figure = row.figure
    known = {"modelled": round(row.modelled, 3)} if row.modelled is not None else {"why": row.why}
    held_out = {"held_out": True} if figure.held_out else {"blind": True} if figure.blind else {}
    head = {"core": figure.core, "name": figure.name, "kind": figure.kind, "when": figure.when}
    change = {"change": figure.change} if figure.change else {}
    return {**head, "published": figure.published, **change, "silicon": round(figure.value, 3), **known, **held_out}


def _show(figures: dict[str, Any]) -> None:
    def percent(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    for entry in figures["cores"]:
        held_out = f"held out {entry['held_out']}: {percent(entry['held_out_error'])}"
        if entry["blind"]:
            blind = f"{percent(entry['blind_error'])}, bias {percent(entry['blind_bias'])}"
            held_out += f", blind {entry['blind']}: {blind}"
        cells = (percent(entry["bias"]), percent(entry["mean_abs_error"]), percent(entry["median_abs_error"]))
        print(
            f"{entry['core']:16} {entry['kind']:11} {entry['modelled']:4} of {entry['figures']:4}  bias {cells[0]:>7}  "
            f"mean {cells[1]:>6}  median {cells[2]:>6}  r {entry['correlation']}  {held_out}"
        )
    for entry in figures["changes"]:
        print(f"{entry['core']:16} changes over 5 %: {entry['changes']}, the right way: {entry['right']}")
    for entry in figures["not_modelled"]:
        print(f"not modelled, {entry['figures']}: {entry['why']}")


if __name__ == "__main__":
    sys.exit(main())
