"""Markdown tables of the records about accelerators with an instruction set."""

from bench.tables.markdown import Record, Tables, table


def accel_fusion(record: Record) -> str:
    """Return the tables of rates by search beside the paper's rates, and of their sensitivity to DDR bandwidth."""
    rows = []
    for row in record["rows"]:
        paper, rates = row["paper"] or {}, row["gops"]

        def beside(ours: object, theirs: object) -> str:
            return f"{ours} ({theirs:g})" if isinstance(theirs, int | float) else str(ours)

        rows.append(
            [
                f"{row['network']}, {row['target']}",
                beside(row["nodes"], paper.get("nodes")),
                beside(f"{row['isomorphism_ms']:.1f}", paper.get("isomorphism_ms")),
                beside(f"{row['stages_ms']['path, exact']:.1f}", paper.get("tuning_ms")),
                beside(rates["none"], paper.get("baseline")),
                beside(rates["greedy"], paper.get("greedy")),
                rates["paper"],
                beside(rates["exact"], row["paper_gops"]),
                f"{row['speed_up']:.3f}",
                f"{row['utilisation_percent']} %",
            ]
        )
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
    head = [
        "network, target",
        "nodes",
        "matching, ms",
        "search, ms",
        "none",
        "greedy",
        "paper's search",
        "exact",
        "speed-up",
        "of peak",
    ]
    return f"{text}.\n\n" + table(head, rows)


def accel_accuracy(record: Record) -> str:
    """Return the table of signal to quantisation noise."""
    rows = [
        [
            row["model"] + (", trained" if row["trained"] else ""),
            row["inputs_of"],
            row["weights"],
            row["sqnr_db"],
            f"{row['top1_agreement']:.0%}",
            row["worst_layer_db"],
            row["cpu_seconds"],
        ]
        for row in record["rows"]
    ]
    text = f"Counted, against f32 on {record['rows'][0]['inputs']} inputs of seeded noise, white or with the spectrum "
    text += f"of natural images, calibrated on {record['calibration_inputs']} others: how near the integers are, not "
    text += (
        "how well images are classified. Per tensor with biases as they are is the paper's; per channel of depthwise "
    )
    text += "is the default of `mavcg accel build`."
    head = [
        "model",
        "inputs",
        "radix positions of weights",
        "SQNR, dB",
        "first class agrees",
        "worst layer, dB",
        "search, CPU s",
    ]
    return f"{text}\n\n" + table(head, rows)


def accel_simulated(record: Record) -> str:
    """Return the table of simulated programs beside the paper's rates, and the examples of figures 7 and 8."""
    rows = []
    for row in record["rows"]:
        searches, paper = row["searches"], row["paper"]
        three = paper if isinstance(paper, list | tuple) else (None, None, paper)

        def beside(search: str, theirs: float | None, searches: Record = searches) -> str:
            return f"{searches[search]['gops']}" + (f" ({theirs:g})" if theirs else "")

        exact = searches["exact"]
        rates = exact["gops_by_bandwidth"]
        rows.append(
            [
                f"{row['network']}, {row['target']}",
                beside("none", three[0]),
                beside("greedy", three[1]),
                searches["paper"]["gops"],
                beside("exact", three[2]),
                f"{exact['gops'] / searches['none']['gops']:.3f}",
                f"{exact['utilisation_percent']} %",
                exact["ms"],
                row["gops_per_watt"],
                row["search_cpu_seconds"],
                ", ".join(f"{rate:g}" for rate in rates.values()),
            ]
        )
    text = (
        "Simulated cycle by cycle, not measured: GOP/s of convolutions of whole programs, all cores; in brackets what "
    )
    text += "DNNVM's tables III and IV print of its boards. GOP/s/W divides by the power that its table V measured ("
    text += ", ".join(f"{name} {watts:g} W" for name, watts in record["power_w"].items())
    text += "). Search: CPU seconds of all costs and paths, on this machine. The last column is the exact search's "
    text += "program with half, the whole and twice the bandwidth of the target's file. "
    for entry in record["figures"]:
        separate, fused = entry["separate"]["program"], entry["fused"]["program"]
        text += (
            f"Figure {entry['figure']} on zu2: {separate['ms']:.3f} ms one by one, {fused['ms']:.3f} ms fused, "
            f"{entry['speed_up']:.2f} times as fast; {fused['feature_bytes']:,} bytes of feature maps in place of "
            f"{separate['feature_bytes']:,}, {entry['saved_percent']} % less (the paper: "
            f"{entry['paper_saved_percent']:g} %). "
        )
    head = [
        "network, target",
        "none",
        "greedy",
        "paper's search",
        "exact",
        "speed-up",
        "of peak",
        "ms",
        "GOP/s/W",
        "search, CPU s",
        "by bandwidth",
    ]
    return f"{text.strip()}\n\n" + table(head, rows)


def accel_learned(record: Record) -> str:
    """Return the table of learned costs: error on groups that were not simulated, slowdown of the chosen path."""
    rows = [
        [
            f"{row['network']}, {row['target']}",
            row["simulated"],
            row["predicted"],
            "-" if row["error_percent"] is None else f"{row['error_percent']} %",
            "-" if row["left_out_error_percent"] is None else f"{row['left_out_error_percent']} %",
            f"{row['worst_twentieth_percent']} %",
            f"{row['regret_percent']} %",
            row["simulated_in_the_end"],
            f"{row['regret_in_the_end_percent']} %",
        ]
        for row in record["rows"]
    ]
    text = "Simulated, not measured: unlike groups of each network, those that were simulated and those that ridge "
    text += (
        "regression predicts; its mean error on these, as it expects it from samples left out, and the error that a "
    )
    text += "twentieth exceed; cycles that the exact search's path loses to the path over simulated costs; the same "
    text += "after further searches, with groups simulated in the end. DNNVM states 5 to 10 %, and dropped its model."
    head = [
        "network, target",
        "simulated",
        "predicted",
        "error",
        "expected",
        "95 % below",
        "regret",
        "simulated in the end",
        "regret in the end",
    ]
    return f"{text}\n\n" + table(head, rows)


def accel_rtl(record: Record) -> str:
    """Return the table of the hardware's programs: equal bytes, and how many are near the simulated cycles."""
    within = record["within_percent"]
    head = [
        "target",
        "programs",
        "of equal bytes",
        "cycles over simulated",
        "worst",
        *(f"within {b} %" for b in within),
    ]
    total, worst = record["total_error_percent"], record["worst_error_percent"]
    row = [
        record["target"],
        record["programs"],
        record["equal"],
        f"{total:+.2f} %",
        f"{worst:+.2f} %",
        *within.values(),
    ]
    text = f"Random programs of {record['instructions']} instructions in all, in Verilator and in both simulators; "
    return f"{text}cycles do not depend on the machine.\n\n{table(head, [row])}"


TABLES: Tables = {
    "accel_fusion": ("Fusion for an instruction-set accelerator", accel_fusion),
    "accel_learned": ("Learned costs of fused groups", accel_learned),
    "accel_simulated": ("Programs for an instruction-set accelerator", accel_simulated),
    "accel_rtl": ("Programs on the accelerator's hardware", accel_rtl),
    "accel_accuracy": ("Accuracy of 8-bit radix positions", accel_accuracy),
}
