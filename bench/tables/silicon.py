"""Markdown tables of bench/results/silicon.json and silicon_simulated.json."""

import statistics
from collections.abc import Mapping, Sequence

from bench.rows import measured
from bench.silicon.blind_table import blind_errors
from bench.silicon.changes import wrong_directions
from bench.silicon.core_facts import errors
from bench.silicon.models import WARM_CALLS
from bench.tables.markdown import Record, Tables, table

_KINDS = {"cycles": "calls", "loop": "loops", "ratio": "changes in time", "instruction": "instructions"}
# Mean absolute error that is asked for on held-out figures, by core.
GOALS: Mapping[str, float] = {
    **dict.fromkeys(("cortex-a53", "cortex-a55"), 0.05),
    **dict.fromkeys(("cortex-a72", "cortex-a73", "cortex-a75", "cortex-a75-r0", "cortex-a76", "neoverse-n1"), 0.10),
    **dict.fromkeys(("cortex-a510", "neoverse-v1", "cortex-x1", "apple-firestorm"), 0.15),
}
_GROUPS = {"calls and loops": ("cycles", "loop"), "changes in time": ("ratio",), "instructions": ("instruction",)}


def silicon(record: Record) -> str:
    """Return errors by core, directions of changes, and figures without a model's, beside an earlier record's."""
    parts = [_errors(record), goals(record), _directions(record)]
    parts += [wrong_directions(record), _left_out(record)]
    return "\n\n".join(parts)


def goals(record: Record) -> str:
    """Return mean absolute errors on held-out figures by core, beside the goal where there is one.

    The verdict is that of kernels (calls, loops, changes in time); of instructions where a core has no kernel held out.
    """
    errors: dict[str, dict[str, list[float]]] = {core: {} for core in GOALS}
    for row in record["rows"]:
        if row.get("held_out") and "modelled" in row:
            group = next(name for name, kinds in _GROUPS.items() if row["kind"] in kinds)
            by_group = errors.setdefault(row["core"], {})
            by_group.setdefault(group, []).append(abs(row["modelled"] / row["silicon"] - 1))
    rows = []
    for core, by_group in sorted(errors.items(), key=lambda item: (GOALS.get(item[0], 1), item[0])):
        cells = [_counted(by_group.get(group, ())) for group in _GROUPS]
        kernels = [error for group in list(_GROUPS)[:2] for error in by_group.get(group, ())]
        rows.append([core, *cells, _counted(kernels), _verdict(core, kernels or by_group.get("instructions", ()))])
    text = "Held-out figures alone: mean absolute error, and in brackets how many figures it is of."
    return f"{text}\n\n{table(['core', *_GROUPS, 'all kernels', 'goal'], rows)}"


def _counted(errors: Sequence[float]) -> str:
    return f"{_percent(statistics.fmean(errors))} ({len(errors)})" if errors else ""


def _verdict(core: str, errors: Sequence[float]) -> str:
    goal = GOALS.get(core)
    if goal is None:
        return ""
    if not errors:
        return f"{goal:.0%}, no figure"
    return f"{goal:.0%} {'met' if statistics.fmean(errors) <= goal else 'missed'}"


def simulated(record: Record) -> str:
    """Return the simulator's errors by core beside those of the analytic models, on the figures that both have."""
    analytic = measured("silicon")
    return beside_analytic(record, analytic)


def beside_analytic(record: Record, analytic: Record) -> str:
    """Return the table of `simulated` for two records."""
    known = {_key(row): row["modelled"] for row in analytic["rows"] if "modelled" in row}
    pairs: dict[tuple[str, str], list[tuple[float, float, float, bool]]] = {}
    for row in record["rows"]:
        if row["kind"] in ("cycles", "ratio") and "modelled" in row and _key(row) in known:
            pair = (row["silicon"], row["modelled"], known[_key(row)], bool(row.get("held_out")))
            pairs.setdefault((row["core"], row["kind"]), []).append(pair)
    rows = []
    for (core, kind), figures in sorted(pairs.items()):
        held_out = [each for each in figures if each[3]]
        cells = [_of_both(group) for group in (figures, held_out)]
        rows.append([core, _KINDS[kind], len(figures), *cells[0], len(held_out) or "", *cells[1]])
    both = [each for group in pairs.values() for each in group]
    rows.append(["all", "", len(both), *_of_both(both), sum(e[3] for e in both), *_of_both([e for e in both if e[3]])])
    text = (
        "Modelled: mean absolute errors of the simulator (caches, branches, store buffer; as many calls in a row as "
        f"the benchmark makes, after {WARM_CALLS} others) and of the analytic models on the same figures. Changes over "
        f"5 % that have the right direction: {_direction(record)} by the simulator, {_direction(analytic)} by the "
        "analytic models."
    )
    head = ["core", "kind", "figures", "simulator", "analytic", "held out", "simulator", "analytic"]
    return f"{text}\n\n{table(head, rows)}"


def _key(row: Record) -> tuple[str, str, str, str, str]:
    return row["core"], row["name"], row["kind"], row["when"], row["published"]


def _of_both(figures: Sequence[tuple[float, float, float, bool]]) -> tuple[str, str]:
    """Return the two models' mean absolute errors on (silicon, simulated, analytic, held out)."""
    if not figures:
        return "", ""
    of_model = [statistics.fmean(abs(each[at] / each[0] - 1) for each in figures) for at in (1, 2)]
    return _percent(of_model[0]), _percent(of_model[1])


def _direction(record: Record) -> str:
    entry = next((each for each in record["changes"] if each["core"] == "all"), None)
    return "none" if entry is None else f"{entry['right']} of {entry['changes']}"


def _errors(record: Record) -> str:
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
        f"Modelled by the {record['model']} model, beside what was published: cycles of calls (everything that a call "
        "costs; with long buffers: of the additional bytes of a longer call) and of loops, times after a commit over "
        "times before it, and cycles an instruction. Bias above 0: "
        f"the model is slower. A random draw (seed {record['lot_seed']}) held {record['held_out_share']:.0%} of the "
        "kernels that were new out of all fitting."
    )
    if earlier:
        text += " Before: with the facts from before these figures were known."
    return f"{text}\n\n{table(head, rows)}"


def _directions(record: Record) -> str:
    rows = [
        [entry["core"], entry["changes"], _share(entry["right"], entry["changes"]), _held(entry)]
        for entry in record["changes"]
    ]
    head = ["core", "changes over 5 % on silicon", "the right way by the model", "of those held out"]
    return table(head, rows)


def _left_out(record: Record) -> str:
    rows = [[entry["why"].replace("|", "\\|"), entry["figures"]] for entry in record["not_modelled"]]
    return f"Figures that the model cannot predict:\n\n{table(['why', 'figures'], rows)}"


def _held(entry: Record) -> str:
    return f"{entry['held_out_right']} of {entry['held_out']}" if entry["held_out"] else ""


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


TABLES: Tables = {
    "silicon": ("Published silicon figures against the models", silicon),
    "silicon_cores": ("Errors against silicon by core", errors),
    "silicon_blind": ("Errors on projects that no fact was fitted to", blind_errors),
    "silicon_simulated": ("Published silicon figures against the simulator", simulated),
}
