"""The record bench/results/gpu.json of what bench/accelerators/gpu.py measured on a GPU."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.record import facts, write

_LIBRARY = {
    "f32": (("cudnn_f32_ms", "f32"), ("cudnn_tf32_ms", "TF32, tensor cores")),
    "f16": (("cudnn_f16_ms", "f16, tensor cores"), ("cudnn_f16_nhwc_ms", "f16, tensor cores, NHWC")),
}
_RATE = {"f32": "f32_gmac_per_s", "f16": "f32_gmac_per_s"}
SECTOR_BYTES = 32


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
