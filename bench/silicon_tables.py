"""The tables of bench/results/silicon.json as markdown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]

_KINDS = {"cycles": "calls", "loop": "loops", "ratio": "changes in time", "instruction": "instructions"}
TITLE = "Published silicon figures against the models"


def silicon(record: Record, table: Table) -> str:
    """Return errors by core, directions of changes, and figures without a model's, beside an earlier record's."""
    parts = [_errors(record, table), _directions(record, table), _left_out(record, table)]
    return "\n\n".join(parts)


def _errors(record: Record, table: Table) -> str:
    earlier = {(e["core"], e["kind"]): e for e in record.get("before", {}).get("cores", ())}
    head = ["core", "kind", "figures", "bias", "mean abs. error", "median", "correlation", "held out", "their error"]
    head += ["bias before", "error before"] if earlier else []
    rows = []
    for entry in record["cores"]:
        cells = [entry["core"], _KINDS[entry["kind"]], f"{entry['modelled']} of {entry['figures']}"]
        cells += [_percent(entry[key]) for key in ("bias", "mean_abs_error", "median_abs_error")]
        cells += ["" if entry["correlation"] is None else f"{entry['correlation']:.2f}", str(entry["held_out"])]
        cells.append(_percent(entry["held_out_error"]))
        if earlier:
            old = earlier.get((entry["core"], entry["kind"]), {})
            cells += [_percent(old.get("bias")), _percent(old.get("mean_abs_error"))]
        rows.append(cells)
    text = (
        f"Modelled by the {record['model']} model, beside what was published: cycles of calls (with everything that a "
        "call costs; of long buffers, of the further bytes of a longer call) and of loops, times after a commit over "
        "times before it, and cycles an instruction. Bias above 0: "
        f"the model is slower. A lot (seed {record['lot_seed']}) held {record['held_out_share']:.0%} of the kernels "
        "that were not known before out of all fitting."
    )
    if earlier:
        text += " Before: with the facts as they were when these figures had not been looked at."
    return f"{text}\n\n{table(head, rows)}"


def _directions(record: Record, table: Table) -> str:
    rows = [
        [entry["core"], entry["changes"], _share(entry["right"], entry["changes"]), _held(entry)]
        for entry in record["changes"]
    ]
    head = ["core", "changes over 5 % on silicon", "the right way by the model", "of those held out"]
    return table(head, rows)


def _left_out(record: Record, table: Table) -> str:
    rows = [[entry["why"].replace("|", "\\|"), entry["figures"]] for entry in record["not_modelled"]]
    return f"Figures that the model cannot be asked about:\n\n{table(['why', 'figures'], rows)}"


def _held(entry: Record) -> str:
    return f"{entry['held_out_right']} of {entry['held_out']}" if entry["held_out"] else ""


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
