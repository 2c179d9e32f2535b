"""The record bench/results/gpu.json of what bench/accelerators/gpu.py measured on a GPU, and its tables."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.record import facts, write
from bench.tables.markdown import Record, table

_LIBRARY = {
    "f32": (("cudnn_f32_ms", "f32"), ("cudnn_tf32_ms", "TF32, tensor cores")),
    "f16": (("cudnn_f16_ms", "f16, tensor cores"), ("cudnn_f16_nhwc_ms", "f16, tensor cores, NHWC")),
}
_RATE = {"f32": "f32_gmac_per_s", "f16": "f32_gmac_per_s"}
SECTOR_BYTES = 32
# Correlation with the time model before its constants were fitted, of the run that they were fitted to.
_BEFORE_FIT = {"f32": 0.9693, "f16": 0.9840, "i8": 0.9576}


def write_record(raw: Mapping[str, Any]) -> None:
    """Write bench/results/gpu.json.

    raw: the file of `python -m bench.accelerators.gpu --measure`.
    """
    rows = [_row(layer, raw["ceilings"]) for layer in raw["rows"]]
    head = facts("measured", "bench.accelerators.gpu")
    gpu = raw["gpu"]
    what = f"{gpu['name']}, {gpu['arch']}, {gpu['sms']} multiprocessors, up to {gpu['clock_mhz']:.0f} MHz"
    head["machine"] = {"processor": what, "cpus": raw["cpus"], "virtual": "yes"}
    head["versions"] |= {"torch": raw["torch"], "cudnn": str(raw["cudnn"])}
    for name in ("load_average",):
        head.pop(name)
    write(
        "gpu",
        {
            **head,
            "ceilings": raw["ceilings"],
            "checked": raw["checked"],
            "wrong": raw["wrong"],
            "errors": raw["errors"],
            "summary": {name: _summary([row for row in rows if row["type"] == name]) for name in ("f32", "f16", "i8")},
            "rows": rows,
            "counters": _counters(raw.get("counters", {}), rows),
            "programs": raw.get("programs", []),
            "planners": raw.get("planners", []),
        },
    )


def _row(layer: Mapping[str, Any], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return a layer's row: its first kernel, the roofline by measured ceilings, and the library's times."""
    kernel = layer["kernels"][0]
    memory_ms = layer["bytes"] / ceilings["copy_gb_per_s"] / 1e6
    rate = ceilings[_RATE[layer["type"]]] if layer["type"] in _RATE else 2 * ceilings["f32_gmac_per_s"]
    row = {key: layer[key] for key in ("network", "layer", "type", "macs", "bytes")}
    row |= {
        "ms": kernel["ms"],
        "predicted_ms": kernel["predicted_ms"],
        "roofline_ms": max(memory_ms, layer["macs"] / rate / 1e6),
    }
    row |= {"registers": kernel["resources"]["registers"], "spilled_bytes": kernel["resources"]["spilled_bytes"]}
    return row | {key: layer[key] for key, _ in _LIBRARY.get(layer["type"], ()) if layer.get(key)}


def _geometric(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    measured, predicted = [row["ms"] for row in rows], [row["predicted_ms"] for row in rows]
    summary: dict[str, Any] = {
        "layers": len(rows),
        "pearson": statistics.correlation(measured, predicted),
        "pearson_of_logs": statistics.correlation([math.log(v) for v in measured], [math.log(v) for v in predicted]),
        "measured_over_predicted": _geometric([m / p for m, p in zip(measured, predicted, strict=True)]),
        "measured_over_roofline": _geometric([row["ms"] / row["roofline_ms"] for row in rows]),
        "spilled": sum(row["spilled_bytes"] > 0 for row in rows),
        "total_ms": sum(measured),
        "library": [],
    }
    for key, title in _LIBRARY.get(rows[0]["type"], ()):
        over = [row["ms"] / row[key] for row in rows]
        summary["library"].append(
            {
                "what": title,
                "faster": sum(ratio < 1 for ratio in over),
                "time_over_library": _geometric(over),
                "worst": max(over),
                "total_ms": sum(row[key] for row in rows),
            }
        )
    return summary


def _counters(counters: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each layer's bytes by the profiler's counters, summed over its kernels, beside its tensors' bytes."""
    tensors = {f"{row['network']}__{row['layer']}__{row['type']}": row["bytes"] for row in rows}
    counted = []
    for name, size in tensors.items():
        if name in counters:
            parts = [counters[name], counters.get(f"{name}_sum", {})]
            total = {key: sum(part.get(key, 0.0) for part in parts) for key in counters[name]}
            counted.append(
                {
                    "layer": name.split("__")[1],
                    "tensor_bytes": size,
                    "memory_bytes": total["memory_read"] + total["memory_written"],
                    "l2_bytes": SECTOR_BYTES * (total["l2_sectors_read"] + total["l2_sectors_written"]),
                }
            )
    return counted


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


TABLES = {"gpu": ("CUDA kernels beside cuDNN", gpu)}
