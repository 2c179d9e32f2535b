"""The records of memory planning as markdown tables; bench/tables.py prints them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]


def arena(record: Record, table: Table) -> str:
    """Return the table of MiniMalloc's problems: peak at the capacity, least peak, nodes and seconds of both."""

    def cells(found: Record) -> list[object]:
        return [f"{found['peak']:,}", f"{found['nodes']:,}", f"{found['cpu_s']:.2f}"]

    rows = []
    for row in record["rows"]:
        least = row["least"]
        proven = "yes" if least["optimal"] else f"no, {100 * (least['peak'] / least['lower_bound'] - 1):.1f} % above"
        rows.append([row["name"], row["buffers"], f"{row['live_peak']:,}", *cells(row["at_capacity"]), *cells(least),
                     proven])  # fmt: skip
    solved = sum(row["at_capacity"]["peak"] <= row["capacity"] for row in record["rows"])
    text = f"Counted, but for the CPU seconds: MiniMalloc's {len(record['rows'])} published problems, {solved} of them "
    text += f"solved at their capacity of {record['rows'][0]['capacity']:,}; then the least peak that it finds. "
    text += "The live peak is a lower bound of any placement: where the least peak is on it, nothing is smaller."
    head = ["problem", "buffers", "live peak", "at capacity: peak", "nodes", "CPU s", "least peak", "nodes", "CPU s",
            "proven least"]  # fmt: skip
    return f"{text}\n\n" + table(head, rows)


TABLES: Mapping[str, tuple[str, Callable[[Record, Table], str]]] = {
    "arena": ("Buffers of MiniMalloc's problems in one memory", arena),
}
