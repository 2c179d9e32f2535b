"""The tables of bench/results/machine_passes.json as markdown."""

from bench.tables.markdown import Record, Tables, table

# What the README shows; the record holds every kernel on every core.
SHOWN = ("fp32 8x8", "fp32 8x8, plain C", "fp32 8x12, one step", "int8 8x12 dot, one step")
_NAMES = tuple(
    "gebp_kernel general_matrix_vector_product lhs_process_one_packet lhs_process_fraction_of_packet "
    "NEON_64bit_GEMM_Int8Operands_LhsNonzero NEON_64_Kernel12x8Depth2 UnpackResult PackSideBlock".split()
)
_CELL = "{before:.2f}, {what_if_split:.2f}, {what_if_split_scheduled:.2f}, **{after:.2f}**"


def machine_passes(record: Record) -> str:
    """Return all tables: kernels on cores, a latency, libraries, seconds."""
    parts = [_kernels(record), _latencies(record), _libraries(record), _seconds(record)]
    return "\n\n".join(parts)


def _kernels(record: Record) -> str:
    cells = {(row["core"], row["kernel"]): row for row in record["kernels"]}
    rows = []
    for core in dict.fromkeys(row["core"] for row in record["kernels"]):
        here = [cells[core, kernel] for kernel in SHOWN]
        split = "yes" if here[0]["policy"]["split"] else "no"
        mark = "*" if any(row["pairs_as_two_loads"] for row in here) else ""
        rows.append([f"{core}{mark}", split, *(_CELL.format(**row) if row["can_run"] else "" for row in here)])
    text = (
        "Modelled, operations a cycle (FLOP; OP for int8): as LLVM compiled it, split as it stands (what if), split "
        "and rescheduled (what if), and in bold **what mavcg makes of it**: what the core's profile asks for and its "
        "model finds better. Empty: the core has no dot product."
    )
    head = ["core", "split", *SHOWN]
    starred = any("*" in str(row[0]) for row in rows)
    note = "\n\n`*`: with pairs as two loads; the core's file has no facts about `ldp q`." if starred else ""
    return f"{text}\n\n{table(head, rows)}{note}"


def _latencies(record: Record) -> str:
    kernels = dict.fromkeys(row["kernel"] for row in record["latencies"])
    cells = {(row["kernel"], row["ldr_x_to_ins"]): row for row in record["latencies"]}
    latencies = sorted({latency for _, latency in cells})
    rows = [
        [kernel, *(f"{cells[kernel, n]['split_alone']:.2f}, **{cells[kernel, n]['after']:.2f}**" for n in latencies)]
        for kernel in kernels
    ]
    text = (
        "Modelled, operations a cycle on a Cortex-A55 of at most 8 (fp32) or 32 (int8): split as it stands and **after "
        "the passes**, were an `ldr x` 2, 3 or 4 cycles before the `ins` that reads it. Its profile says 3, with "
        "which Arm's own loops take as many cycles as on silicon."
    )
    return f"{text}\n\n" + table(["kernel", *(f"{n} cycles" for n in latencies)], rows)


def _libraries(record: Record) -> str:
    cells = {(row["function"], row["label"], row["core"]): row for row in record["libraries"]}
    cores = list(dict.fromkeys(row["core"] for row in record["libraries"]))
    rows = []
    for row in record["libraries"]:
        if row["core"] == cores[0]:
            name = f"{row['library']}: {_short(row['function'])}, {row['multiply_adds']} multiply-adds"
            here = [cells[row["function"], row["label"], core] for core in cores]
            figures = [f"{c['cycles_before']:.0f} to {c['cycles_after']:.0f} ({c['ratio']:.2f}x)" for c in here]
            rows.append([name, *figures])
    text = (
        "Modelled, cycles an iteration: every loop of Debian's Eigen and gemmlowp with at least 16 vector "
        "multiply-adds, as compiled for a Cortex-A55 and after the passes; in brackets how much faster."
    )
    return f"{text}\n\n" + table(["loop", *cores], rows)


def _short(function: str) -> str:
    """Return the distinctive part of a linkage name."""
    return next((name for name in _NAMES if name in function), function[:40])


def _seconds(record: Record) -> str:
    rows = []
    for row in record["seconds"]:
        cells = [
            f"{row[by]['first_s']:.2f} s, {row[by]['from_cache_s']:.2f} s ({row[by]['cycles_after']:.0f} cycles)"
            for by in ("heuristic", "solver")
        ]
        rows.append([f"{row['kernel']}, {row['instructions']} instructions", *cells])
    times = record["seconds"][0]["heuristic"]["times"] if record["seconds"] else 0
    text = (
        "Measured: CPU seconds for a kernel's function on its way to a Cortex-A55, first time and again from the cache;"
        f" medians of {times} with the heuristic, one run with at most {record['solver_seconds']:.0f} s of CP-SAT."
    )
    return f"{text}\n\n" + table(["kernel", "heuristic: first, again", "solver: first, again"], rows)


def ir_split(record: Record) -> str:
    """Return the table of kernels' cycles by where loads are split, and of random orders in IR."""
    kernels = dict.fromkeys(row["kernel"] for row in record["kernels"])
    cells = {(row["core"], row["kernel"]): row for row in record["kernels"]}
    cores = list(record["speed_over_none"])
    cell = "{none:.4g}, {ir:.4g}, {machine:.4g}, {both:.4g}"
    rows = [
        [kernel, *(cell.format(**row) if (row := cells[core, kernel])["can_run"] else "" for core in cores)]
        for kernel in kernels
    ]
    means = [record["speed_over_none"][core] for core in cores]
    rows.append(["speed, geometric mean", *("1, {ir:.2f}, {machine:.2f}, {both:.2f}".format(**mean) for mean in means)])
    text = (
        "Modelled, cycles of one iteration of the main loop as LLVM compiles it for the core: whole loads; loads "
        "split in LLVM IR; through the machine passes, which split and schedule; through both. Empty: the core has no "
        "dot product."
    )
    kept = [
        [
            row["kernel"],
            f"{row['before_last_load_in_ir']:.0%}",
            *(
                "{before_last_load:.0%}, {least_cycles:.4g} to {most_cycles:.4g}".format(**row[form])
                for form in ("scheduled", "unscheduled")
            ),
        ]
        for row in record["orders"]
    ]
    about = (
        f"Counted: part of the multiply-adds that stand before the loop's last load in {record['orders'][0]['orders']} "
        "random orders of the split loop that delay loads, in IR and in LLVM's assembly for a Cortex-A55, with its "
        "cycles (modelled), with LLVM's schedulers and without them."
    )
    head = ["kernel", "in IR", "in assembly", "without schedulers"]
    return f"{text}\n\n{table(['kernel', *cores], rows)}\n\n{about}\n\n{table(head, kept)}"


TABLES: Tables = {
    "machine_passes": ("Kernels through the machine passes", machine_passes),
    "ir_split": ("Load splitting in LLVM IR beside the machine pass", ir_split),
}
