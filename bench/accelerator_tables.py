"""The records of accelerators with an instruction set as markdown tables; bench/tables.py prints them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]


def accel_fusion(record: Record, table: Table) -> str:
    """Return the table of rates by search beside the paper's, and the sensitivity to the DDR memory's bandwidth."""
    rows = []
    for row in record["rows"]:
        paper, rates = row["paper"] or {}, row["gops"]

        def beside(ours: object, theirs: object) -> str:
            return f"{ours} ({theirs:g})" if isinstance(theirs, int | float) else str(ours)

        rows.append([
            f"{row['network']}, {row['target']}", beside(row["nodes"], paper.get("nodes")),
            beside(f"{row['isomorphism_ms']:.1f}", paper.get("isomorphism_ms")),
            beside(f"{row['stages_ms']['path, exact']:.1f}", paper.get("tuning_ms")),
            beside(rates["none"], paper.get("baseline")), beside(rates["greedy"], paper.get("greedy")), rates["paper"],
            beside(rates["exact"], row["paper_gops"]), f"{row['speed_up']:.3f}", f"{row['utilisation_percent']} %",
        ])  # fmt: skip
    text = (
        "Modelled, not measured: GOP/s of convolutions by the analytic model of `mavcg accel fuse`; in brackets what "
    )
    text += "DNNVM's tables III and IV print of its boards. CPU times of matching all templates and of the exact "
    text += "search, on this machine. The bandwidth of the DDR memory is that of the target's file; on zu2, without "
    text += "fusion and with the exact search, by bandwidth: "
    text += "; ".join(
        f"{name} " + ", ".join(f"{r['none']} to {r['exact']} at {at}" for at, r in by.items())
        for name, by in record["zu2_by_bandwidth"].items()
    )
    head = ["network, target", "nodes", "matching, ms", "search, ms", "none", "greedy", "paper's search", "exact",
            "speed-up", "of peak"]  # fmt: skip
    return f"{text}.\n\n" + table(head, rows)


def accel_accuracy(record: Record, table: Table) -> str:
    """Return the table of signal to quantisation noise."""
    rows = [
        [row["model"] + (", trained" if row["trained"] else ""), row["weights"], row["sqnr_db"],
         f"{row['top1_agreement']:.0%}", row["worst_layer_db"], row["cpu_seconds"]]
        for row in record["rows"]
    ]  # fmt: skip
    text = f"Counted, against f32 on {record['rows'][0]['inputs']} inputs of seeded noise, calibrated on "
    text += f"{record['calibration_inputs']} others: how near the integers are, not how well images are classified."
    head = ["model", "radix positions of weights", "SQNR, dB", "first class agrees", "worst layer, dB", "search, CPU s"]
    return f"{text}\n\n" + table(head, rows)


TABLES: Mapping[str, tuple[str, Callable[[Record, Table], str]]] = {
    "accel_fusion": ("Fusion for an instruction-set accelerator", accel_fusion),
    "accel_accuracy": ("Accuracy of 8-bit radix positions", accel_accuracy),
}
