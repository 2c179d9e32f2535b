"""Tables of GPUs: CUDA kernels beside cuDNN, and tilings beside other planners'."""

from collections.abc import Sequence

from bench.accelerators.thesis_figures import MIB, OURS, PAPER_REDUCTION, mean
from bench.tables.markdown import Record, Tables, table
from mavcg.accelerators.plans.baselines import BASELINES
from mavcg.graph.networks import NAMES

LAYERS_OF, LAYERS_ON = "vgg16", "jetson-tx2"  # figure 8.3's network, and the thesis's board
OPERANDS = ("input", "weight", "output")
# Correlation with the time model before its constants were fitted, of the run that they were fitted to.
_BEFORE_FIT = {"f32": 0.9693, "f16": 0.9840, "i8": 0.9576}


def gpu(record: Record) -> str:
    """Return the tables of kernels beside cuDNN, of one network's layers, and of whole programs."""
    return "\n\n".join(show(record) for show in (_beside, _layers, _programs, _plans))


def _beside(record: Record) -> str:
    rows = []
    for name, group in record["summary"].items():
        before = _BEFORE_FIT[name]
        ends = [f"{group['measured_over_roofline']:.1f}", f"{group['pearson']:.3f} ({before:.3f})"]
        for library in group["library"]:
            times = f"{group['total_ms']:.2f} / {library['total_ms']:.2f}"
            faster, ratio = f"{library['faster']} of {group['layers']}", f"{library['time_over_library']:.2f}"
            rows.append([name, library["what"], faster, ratio, f"{library['worst']:.1f}", times, *ends])
        if not group["library"]:
            rows.append([name, "none: PyTorch has no such convolution", "", "", "", f"{group['total_ms']:.2f}", *ends])
    text = (
        "Measured: different layers of five networks, batch 1, alternating sets of data, medians of replayed graphs. "
        "cuDNN (cuBLAS for products) through PyTorch, its fastest algorithm, without bias; mavcg's include bias. "
        f"{record['checked']} checks on the GPU, {record['wrong']} wrong; kernels that spill: "
        f"{sum(one['spilled'] for one in record['summary'].values())}. Roofline: the larger of bytes over a copy's "
        "rate and MAC over cuBLAS's f32 rate, twice that for int8; reads alone are faster than a copy. "
        "Pearson: predicted against measured; in brackets before the model's constants were fitted to an earlier run "
        "on this GPU. The thesis has 0.64."
    )
    head = ["type", "beside", "faster", "time over it", "worst layer", "all layers, ms", "over roofline", "Pearson"]
    return f"{text}\n\n" + table(head, rows)


def _layers(record: Record) -> str:
    keys = ("ms", "predicted_ms", "roofline_ms", "cudnn_f32_ms", "cudnn_tf32_ms")
    counted = {layer["layer"]: layer for layer in record["counters"]}
    rows: list[list[object]] = []
    for row in record["rows"]:
        if row["network"] == "vgg16" and row["type"] == "f32":
            bytes_moved = counted.get(row["layer"], {})
            moved = [
                f"{bytes_moved[key] / 1e6:.1f}"
                for key in ("tensor_bytes", "memory_bytes", "l2_bytes")
                if key in bytes_moved
            ]
            rows.append([row["layer"], *(f"{1000 * row[key]:.1f}" for key in keys), *moved])
    text = "Measured: VGG-16 in f32, us; MB by the profiler's counters (ncu) of one run: caches keep most outputs."
    head = ["layer", "us", "predicted", "roofline", "cuDNN f32", "cuDNN TF32", "tensors, MB", "memory, MB", "L2, MB"]
    return f"{text}\n\n" + table(head, rows)


def _programs(record: Record) -> str:
    errors = {(row["network"], row["type"]): row for row in record["programs"]}
    rows = [
        [name, *(f"{errors[name, kind]['relative_error']:.1e}" for kind in ("f32", "f16"))]
        for name in dict.fromkeys(network for network, _ in errors)
    ]
    text = "Measured: whole networks by their host programs: norm of the difference from the reference over its norm."
    return f"{text}\n\n" + table(["network", "f32", "f16"], rows)


def _plans(record: Record) -> str:
    rows = [
        [row["network"], row["planner"], f"{row['bytes'] / 2**20:.1f}", row["copies"], f"{row['ms']:.1f}"]
        for row in record["planners"]
        if "ms" in row
    ]
    text = (
        "Measured: convolutions by their plans for setup A as CUDA programs, one run each, off-chip memory the host's "
        "and not pinned; bytes are counted by the programs and are the plans'."
    )
    head = ["network", "planner", "MiB copied", "copies", "ms"]
    return f"{text}\n\n" + table(head, rows)


def gpu_baselines(record: Record) -> str:
    """Return the record's tables."""
    return "\n\n".join((_speedups(record), _reductions(record), _operands(record)))


def _speedups(record: Record) -> str:
    rows: list[Sequence[object]] = []
    for gpu in record["gpus"]:
        cells = [
            f"{mean(record['rows'], 'speedup_overlapped', setup=gpu, network=name):.2f}, "
            f"{mean(record['rows'], 'speedup_in_turns', setup=gpu, network=name):.2f}"
            for name in NAMES
        ]
        rows += [[f"{gpu}, modelled", *cells], [f"{gpu}, measured", *["not run"] * len(NAMES)]]
    for setup, measured in record["table_8_4_measured_by_the_paper"].items():
        rows.append([f"setup {setup}, the thesis on a Jetson TX2", *(f"{value:.2f}" for value in measured)])
    text = (
        "Modelled, table 8.4: speed of the thesis's own search over the planners of its table 8.3 (mean of "
        f"{', '.join(BASELINES)}), by the roofline with transfers overlapping computation, then without "
        "overlap. No GPU ran these tilings (not run); plans of setup A ran on an H100 (CUDA kernels beside "
        "cuDNN)."
    )
    return f"{text}\n\n" + table(["GPU", *NAMES], rows)


def _reductions(record: Record) -> str:
    rows = []
    for gpu in record["gpus"]:
        of = [row for row in record["rows"] if row["setup"] == gpu]
        means = [f"{mean(of, 'reduction_percent', network=name):.1f}" for name in NAMES]
        over = [row["bytes"][OURS] / MIB / row["no_reload_mib"] for row in of]
        exact = [1 - row["bytes"]["exact"] / row["bytes"][OURS] for row in of]
        rows.append(
            [
                gpu,
                *means,
                f"{mean(of, 'reduction_percent'):.1f}",
                f"{min(over):.1f} to {max(over):.1f}",
                f"{100 * min(exact):.1f} to {100 * max(exact):.1f}",
            ]
        )
    paper = [f"{PAPER_REDUCTION[name]:.1f}" if name in PAPER_REDUCTION else "" for name in NAMES]
    rows.append(["setups A to D, the thesis", *paper, f"{PAPER_REDUCTION['mean']:.1f}", "", ""])
    text = (
        "Modelled, figure 8.2: percent less off-chip access than the others' mean; bytes over those of no reload; "
        "percent less again by our exact search."
    )
    return f"{text}\n\n" + table(["GPU", *NAMES, "mean", "over no reload", "exact"], rows)


def _operands(record: Record) -> str:
    planners = [name for name in record["layers"][0] if name != "layer"]
    rows = [
        [row["layer"], *(" + ".join(f"{bytes_ / MIB:.1f}" for bytes_ in row[planner]) for planner in planners)]
        for row in record["layers"]
    ]
    sums = [
        " + ".join(f"{sum(row[planner][k] for row in record['layers']) / MIB:.0f}" for k in range(len(OPERANDS)))
        for planner in planners
    ]
    text = (
        f"Modelled, figure 8.3 ({LAYERS_OF} on {LAYERS_ON}): MiB of input + weights + output. The thesis prints its "
        "figure as a chart of setup A, without numbers."
    )
    return f"{text}\n\n" + table(["layer", *planners], [*rows, ["all", *sums]])


TABLES: Tables = {
    "gpu": ("CUDA kernels beside cuDNN", gpu),
    "gpu_baselines": ("Tilings for GPUs beside other planners", gpu_baselines),
}
