"""Changes in time whose direction a model gets wrong, by the commit that made them, with known causes."""

from collections.abc import Iterator, Mapping

from bench.silicon.summary import CHANGE
from bench.tables.markdown import Record, table

_ALIGNED = (
    "two instructions moved behind a branch: the same ones run, at other addresses. Guides (A720, V1, X4: 4.8) "
    "say that the alignment of branches and their targets matters, not by how much; where the benchmark's linker put "
    "them is not published"
)
# By commit of dav1d, or list. What could be traced to a fact with a source was mended; these are left.
CAUSES: Mapping[str, str] = {
    "0bad117e": "A72, A73: sums of two halves in one register, stores of lanes; no guide or table of the A73's "
    "instructions is public, its rows are fitted to other figures",
    "8141546d": "A55: stores that follow one another at once. Its guide (4.19, 5.8) has 16 bytes stored a cycle, "
    "published figures 8; how many stores its buffer takes before issue waits is not published",
    "d835c6bf": "A55: as 8141546d. A72: bound in the model by 8 bytes stored a cycle, "
    "with st1 of four registers as with stp; how long the former takes is not published",
    "c5726277": "A55: as 8141546d, but half as many stores, of twice the bytes, take longer",
    "51b67010": "A520: a load and permutes in place of ld4r, compares in place of a jump table; both take as long in "
    "the model, which has the A510's rows for this core",
    "643195f5": "A510: the new order of instructions takes as long in the model",
    "d1bdf4f1": "A510: a permute and a rounding shift take 7 cycles in its rows, the two narrowing "
    "shifts in their place 6",
    "a3823649": _ALIGNED,
    "dbed372b": "as a3823649",
    "gmp": "A53: loops with pairs of loads and stores and chains of carries, whose figures are ranges by alignment; "
    "which of their instructions share a cycle is not published",
    "ec5c3052": "lane 0 stored or loaded as a register. Copies of two pixels by put of 8 taps and by bilinear put run "
    "the same code, and silicon has 0.87 of the first and 0.99 of the second on a V2 and an X3, 1.06 and 1.03 on a V1. "
    "A715, mct_bilinear_w4_h: slower on silicon alone of seven cores, by what is not known",
}


def changes(record: Record) -> Iterator[tuple[Record, float, float]]:
    """Yield (row, silicon's ratio, the model's ratio) of each change over 5 % on silicon: after over before."""
    pairs: dict[tuple[str, str, str], dict[str, Record]] = {}
    for row in record["rows"]:
        if "modelled" not in row:
            continue
        if row["kind"] == "ratio" and abs(row["silicon"] - 1) > CHANGE:
            yield row, row["silicon"], row["modelled"]
        elif row["kind"] == "cycles":
            pairs.setdefault((_change(row), row["name"], row["core"]), {})[row["when"]] = row
    for pair in pairs.values():
        if {"before", "after"} <= pair.keys():
            before, after = pair["before"], pair["after"]
            silicon = after["silicon"] / before["silicon"]
            if abs(silicon - 1) > CHANGE:
                yield after, silicon, after["modelled"] / before["modelled"]


def _change(row: Record) -> str:
    """Return what the rows before and after a change share: the text with dav1d's commit, or list and function."""
    return str(row.get("change", row["published"]))


def label(row: Record) -> str:
    """Return what a change is listed under: dav1d's commit, or the list whose functions were rewritten."""
    return str(row["change"]).partition(":")[0] if "change" in row else str(row["published"]).rpartition(" ")[2]


def wrong_directions(record: Record) -> str:
    """Return a table of the changes with a wrong direction, by dav1d's commit or by list.

    Cores, and how many the model does not see at all.
    """
    by_commit: dict[str, list[tuple[Record, float, float]]] = {}
    for row, silicon, modelled in changes(record):
        if (silicon - 1) * (modelled - 1) <= 0:
            by_commit.setdefault(label(row), []).append((row, silicon, modelled))
    rows = []
    for commit, wrong in sorted(by_commit.items(), key=lambda item: (-len(item[1]), item[0])):
        cores = sorted({row["core"].removeprefix("cortex-") for row, _, _ in wrong})
        none = sum(abs(modelled - 1) < 0.0005 for _, _, modelled in wrong)
        ratios = [silicon for _, silicon, _ in wrong]
        shown = f"{min(ratios):.2f} to {max(ratios):.2f}"
        rows.append([commit, len(wrong), none, shown, ", ".join(cores), CAUSES.get(commit, "")])
    head = [
        "dav1d's commit, or list",
        "wrong",
        "no change in the model",
        "on silicon",
        "cores",
        "what is known of the cause",
    ]
    return f"Changes whose direction is wrong, by the commit that made them:\n\n{table(head, rows)}"
