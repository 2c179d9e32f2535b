"""Markdown tables of the records about accelerators with an instruction set."""

from collections.abc import Callable

from bench.tables.markdown import Record, Tables, table, table_of


def _beside(ours: object, theirs: object) -> str:
    """Return our figure with the paper's in brackets, if it has one."""
    return f"{ours} ({theirs:g})" if isinstance(theirs, int | float) else str(ours)


def _with_error(ours: float, theirs: float | None) -> str:
    """Return our simulated rate with the paper's measured one and our error in brackets, if it has one."""
    return f"{ours} ({theirs:g}, {100 * (ours / theirs - 1):+.0f} %)" if theirs else str(ours)


def _subject(row: Record) -> str:
    return f"{row['network']}, {row['target']}"


def accel_fusion(record: Record) -> str:
    """Return the tables of rates by search beside the paper's rates, and of their sensitivity to DDR bandwidth."""

    def paper(row: Record, key: str) -> object:
        return (row["paper"] or {}).get(key)

    text = (
        "Modelled, not measured: GOP/s of convolutions by the analytic model of `mavcg accel fuse`; in brackets what "
        "DNNVM's tables III and IV print of its boards. CPU times of matching all templates and of the exact search, "
        "on this machine. The bandwidth of the DDR memory is that of the target's file; on zu2, without fusion and "
        "with the exact search, by bandwidth: "
    )
    text += "; ".join(
        f"{name} " + ", ".join(f"{r['none']} to {r['exact']} at {at}" for at, r in by.items())
        for name, by in record["zu2_by_bandwidth"].items()
    )
    rows = table_of(
        record["rows"],
        {
            "network, target": _subject,
            "nodes": lambda row: _beside(row["nodes"], paper(row, "nodes")),
            "matching, ms": lambda row: _beside(f"{row['isomorphism_ms']:.1f}", paper(row, "isomorphism_ms")),
            "search, ms": lambda row: _beside(f"{row['stages_ms']['path, exact']:.1f}", paper(row, "tuning_ms")),
            "none": lambda row: _beside(row["gops"]["none"], paper(row, "baseline")),
            "greedy": lambda row: _beside(row["gops"]["greedy"], paper(row, "greedy")),
            "paper's search": lambda row: row["gops"]["paper"],
            "exact": lambda row: _beside(row["gops"]["exact"], row["paper_gops"]),
            "speed-up": lambda row: f"{row['speed_up']:.3f}",
            "of peak": lambda row: f"{row['utilisation_percent']} %",
        },
    )
    return f"{text}.\n\n{rows}"


def accel_accuracy(record: Record) -> str:
    """Return the table of signal to quantisation noise."""
    text = (
        f"Counted, against f32 on {record['rows'][0]['inputs']} inputs of seeded noise, white or with the spectrum of "
        f"natural images, calibrated on {record['calibration_inputs']} others: how near the integers are, not how well "
        "images are classified. Per tensor with biases as they are is the paper's; per channel of depthwise is the "
        "default of `mavcg accel build`."
    )
    rows = table_of(
        record["rows"],
        {
            "model": lambda row: row["model"] + (", trained" if row["trained"] else ""),
            "inputs": lambda row: row["inputs_of"],
            "radix positions of weights": lambda row: row["weights"],
            "SQNR, dB": lambda row: row["sqnr_db"],
            "first class agrees": lambda row: f"{row['top1_agreement']:.0%}",
            "worst layer, dB": lambda row: row["worst_layer_db"],
            "search, CPU s": lambda row: row["cpu_seconds"],
        },
    )
    return f"{text}\n\n{rows}"


def accel_simulated(record: Record) -> str:
    """Return the table of simulated programs beside the paper's rates, and the examples of figures 7 and 8."""

    def beside(row: Record, search: str, place: int) -> str:
        paper = row["paper"] if isinstance(row["paper"], list | tuple) else (None, None, row["paper"])
        return _with_error(row["searches"][search]["gops"], paper[place])

    def gain(row: Record) -> str:
        return f"{row['searches']['exact']['gops'] / row['searches']['none']['gops']:.3f}"

    watts = ", ".join(f"{name} {watts:g} W" for name, watts in record["power_w"].items())
    text = (
        "Simulated cycle by cycle, not measured: GOP/s of convolutions of whole programs, all cores; in brackets what "
        "DNNVM's tables III and IV print of its boards, and how much more is simulated. GOP/s/W divides by the power "
        f"that its table V measured ({watts}). Search: CPU seconds of all costs and paths, on this machine. The last "
        "column is the exact search's program with half, the whole and twice the bandwidth of the target's file. "
    )
    for entry in record["figures"]:
        separate, fused = entry["separate"]["program"], entry["fused"]["program"]
        text += (
            f"Figure {entry['figure']} on zu2: {separate['ms']:.3f} ms one by one, {fused['ms']:.3f} ms fused, "
            f"{entry['speed_up']:.2f} times as fast; {fused['feature_bytes']:,} bytes of feature maps in place of "
            f"{separate['feature_bytes']:,}, {entry['saved_percent']} % less (the paper: "
            f"{entry['paper_saved_percent']:g} %). "
        )
    rows = table_of(
        record["rows"],
        {
            "network, target": _subject,
            "none": lambda row: beside(row, "none", 0),
            "greedy": lambda row: beside(row, "greedy", 1),
            "paper's search": lambda row: row["searches"]["paper"]["gops"],
            "exact": lambda row: beside(row, "exact", 2),
            "speed-up": gain,
            "of peak": lambda row: f"{row['searches']['exact']['utilisation_percent']} %",
            "ms": lambda row: row["searches"]["exact"]["ms"],
            "GOP/s/W": lambda row: row["gops_per_watt"],
            "search, CPU s": lambda row: row["search_cpu_seconds"],
            "by bandwidth": lambda row: ", ".join(
                f"{rate:g}" for rate in row["searches"]["exact"]["gops_by_bandwidth"].values()
            ),
        },
    )
    return f"{text.strip()}\n\n{rows}"


def accel_learned(record: Record) -> str:
    """Return the table of learned costs: error on groups that were not simulated, slowdown of the chosen path."""

    def percent(key: str) -> Callable[[Record], str]:
        return lambda row: "-" if row[key] is None else f"{row[key]} %"

    text = (
        "Simulated, not measured: unlike groups of each network, those that were simulated and those that ridge "
        "regression predicts; its mean error on these, as it expects it from samples left out, and the error that a "
        "twentieth exceed; cycles that the exact search's path loses to the path over simulated costs; the same after "
        "further searches, with groups simulated in the end. DNNVM states 5 to 10 %, and dropped its model."
    )
    rows = table_of(
        record["rows"],
        {
            "network, target": _subject,
            "simulated": lambda row: row["simulated"],
            "predicted": lambda row: row["predicted"],
            "error": percent("error_percent"),
            "expected": percent("left_out_error_percent"),
            "95 % below": percent("worst_twentieth_percent"),
            "regret": percent("regret_percent"),
            "simulated in the end": lambda row: row["simulated_in_the_end"],
            "regret in the end": percent("regret_in_the_end_percent"),
        },
    )
    return f"{text}\n\n{rows}"


def accel_rtl(record: Record) -> str:
    """Return the table of the hardware's programs: equal bytes, and how many are near the simulated cycles."""
    row = {
        "target": record["target"],
        "programs": record["programs"],
        "of equal bytes": record["equal"],
        "cycles over simulated": f"{record['total_error_percent']:+.2f} %",
        "worst": f"{record['worst_error_percent']:+.2f} %",
        **{f"within {percent} %": programs for percent, programs in record["within_percent"].items()},
    }
    text = f"Random programs of {record['instructions']} instructions in all, in Verilator and in both simulators; "
    return f"{text}cycles do not depend on the machine.\n\n{table(tuple(row), [tuple(row.values())])}"


def accel_synthesis(record: Record) -> str:
    """Return the table of what the hardware takes of an FPGA."""
    row = {
        "target": record["target"],
        "LUT4": record["lut4"],
        "flip-flops": record["flip_flops"],
        "multipliers 18 x 18": record["multipliers_18x18"],
        "block RAMs of 18 kbit": record["block_rams_18_kbit"],
    }
    text = f"Synthesised for Lattice's ECP5 by {record['yosys'].split(' (')[0]}; nothing is placed or routed."
    return f"{text}\n\n{table(tuple(row), [tuple(row.values())])}"


TABLES: Tables = {
    "accel_fusion": ("Fusion for an instruction-set accelerator", accel_fusion),
    "accel_learned": ("Learned costs of fused groups", accel_learned),
    "accel_simulated": ("Programs for an instruction-set accelerator", accel_simulated),
    "accel_rtl": ("Programs on the accelerator's hardware", accel_rtl),
    "accel_synthesis": ("The accelerator's hardware on an FPGA", accel_synthesis),
    "accel_accuracy": ("Accuracy of 8-bit radix positions", accel_accuracy),
}
