"""Layers of five networks as CUDA kernels on this machine's GPU: checked, and timed beside cuDNN and the roofline.

    python -m bench.accelerators.gpu --measure gpu-raw.json     # on the machine with the GPU (nvcc, PyTorch and NumPy)
    python -m bench.accelerators.gpu --record gpu-raw.json      # anywhere: bench/results/gpu.json

docs/gpu.md says what is measured. Without a GPU the first command says so and ends with status 2.
"""

import argparse
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.accelerators.gpu_driver import Driver, compile_with_nvcc
from bench.accelerators.gpu_programs import run_planners, run_programs
from bench.accelerators.gpu_times import buffer_bytes, ceilings, library_ms, own_ms
from mavcg.accelerators.gpu.check_layer import layer_case
from mavcg.accelerators.gpu.emulation import HEADERS
from mavcg.accelerators.gpu.gpu_layer import GpuLayer, typed_layer
from mavcg.accelerators.gpu.kernel_search import FoundKernel, best_kernels
from mavcg.accelerators.gpu.layer_source import launches_of, layer_source
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.errors import MavcgError
from mavcg.graph.networks import NAMES, network
from mavcg.profiles.gpus import load_gpu

TYPES = ("f32", "f16", "i8")
SEED = 20261123
MOST_CHECKED_MACS = 2_000_000_000


def layers(networks: tuple[str, ...], types: tuple[str, ...]) -> list[tuple[str, GpuLayer]]:
    """Return (network, layer) of each distinct layer; the network is the first that has it."""
    distinct: dict[Any, tuple[str, GpuLayer]] = {}
    for name in networks:
        for layer in layers_of(network(name)):
            for type_name in types:
                distinct.setdefault((layer.key, type_name), (name, typed_layer(layer, type_name)))
    return list(distinct.values())


def prepare(task: tuple[str, GpuLayer, str, int]) -> tuple[str, list[tuple[FoundKernel, bytes, dict[str, Any]]], str]:
    """Return a layer's kernels with their machine code, and an error's text or "". Runs in a process of its own."""
    name, layer, board, count = task
    gpu = load_gpu(board)
    done = []
    try:
        for candidate in _different(best_kernels(layer, gpu, 64), count):
            code = compile_with_nvcc(layer_source(candidate.kernel, "layer"), HEADERS, gpu.arch)
            done.append((candidate, code.cubin, {k: asdict(v) for k, v in code.resources.items()}))
    except MavcgError as error:
        return name, done, str(error)
    return name, done, ""


def _different(candidates: tuple[FoundKernel, ...], count: int) -> list[FoundKernel]:
    """Return the first kernel and others with other thread tiles or splits, to see what the time model misses."""
    kept: dict[Any, FoundKernel] = {}
    for candidate in candidates:
        k = candidate.kernel
        key = tuple(
            getattr(k, name, None) for name in ("rm", "rn", "threads_oc", "threads_pixels", "splits", "tile_oh")
        )
        kept.setdefault(key, candidate)
    return list(kept.values())[:count]


def check(task: tuple[FoundKernel, bool]) -> tuple[FoundKernel, bool, Any]:
    """Return a kernel's check. Runs in a process of its own."""
    candidate, whole = task
    return candidate, whole, layer_case(candidate.kernel, SEED, whole)


def measure(
    path: Path,
    board: str,
    networks: tuple[str, ...],
    types: tuple[str, ...],
    candidates: int,
    checks: bool,
    programs: bool,
    limit_s: float,
) -> int:
    """Measure all layers and write the raw record. Return the number of wrong kernels."""
    began = time.perf_counter()
    tasks = [
        (name, layer, board, candidates if layer.type == "f32" else min(2, candidates))
        for name, layer in layers(networks, types)
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool() as pool:
        kernels = pool.map(prepare, tasks, chunksize=1)
        print(f"{len(tasks)} layers compiled after {time.perf_counter() - began:.0f} s", flush=True)
        driver = Driver()
        import torch

        torch.cuda.init()
        record: dict[str, Any] = {
            "gpu": driver.facts(),
            "profile": board,
            "cpus": os.cpu_count(),
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
            "ceilings": ceilings(torch),
            "rows": [],
            "errors": [],
        }
        print(json.dumps(record["ceilings"]), flush=True)
        for (name, layer, _, _), (_, ranked, error) in zip(tasks, kernels, strict=True):
            if error:
                record["errors"].append({"layer": layer.conv.name, "type": layer.type, "error": error})
            if not ranked:
                continue
            if time.perf_counter() - began > limit_s:
                record["errors"].append({"layer": layer.conv.name, "type": layer.type, "error": "no time left"})
                continue
            row: dict[str, Any] = {
                "network": name,
                "layer": layer.conv.name,
                "type": layer.type,
                "macs": layer.conv.macs,
                "bytes": sum(v for k, v in buffer_bytes(ranked[0][0]).items() if k != "partial"),
            }
            row["kernels"] = [
                {
                    "ms": own_ms(torch, driver, candidate, cubin),
                    "predicted_ms": candidate.time.seconds * 1e3,
                    "bound": candidate.time.bound,
                    "plan": plan_of(candidate),
                    "resources": resources["layer"],
                }
                for candidate, cubin, resources in ranked
            ]
            if layer.type == "f32":
                row["cudnn_f32_ms"] = library_ms(torch, layer, False, False)
                row["cudnn_tf32_ms"] = library_ms(torch, layer, True, False)
            elif layer.type == "f16":
                row["cudnn_f16_ms"] = library_ms(torch, layer, False, False)
                row["cudnn_f16_nhwc_ms"] = library_ms(torch, layer, False, True)
            record["rows"].append(row)
            torch.cuda.empty_cache()
        print(f"timed after {time.perf_counter() - began:.0f} s", flush=True)
        path.write_text(json.dumps(record, indent=1))
        wrong = checked = 0
        if checks:
            work = [
                (ranked[0][0], whole)
                for _, ranked, _ in kernels
                if ranked
                for whole in (True, False)
                if ranked[0][0].kernel.layer.conv.macs <= MOST_CHECKED_MACS
            ]
            cubins = {id_of(found[0][0]): found[0][1] for _, found, _ in kernels if found}
            for tested, whole, case in pool.imap_unordered(check, work):
                launches = launches_of(tested.kernel, "layer")
                functions = driver.load(cubins[id_of(tested)], [launch.function for launch in launches])
                driver.run(launches, functions, case.buffers)
                mismatches, checked = case.mismatches(), checked + 1
                if mismatches:
                    wrong += 1
                    record["errors"].append(
                        {
                            "layer": tested.kernel.layer.conv.name,
                            "type": tested.kernel.layer.type,
                            "whole": whole,
                            "mismatches": mismatches,
                        }
                    )
                if time.perf_counter() - began > limit_s + 60:
                    break
            record["checked"], record["wrong"] = checked, wrong
            print(f"{checked} checked, {wrong} wrong after {time.perf_counter() - began:.0f} s", flush=True)
        path.write_text(json.dumps(record, indent=1))
        if programs:
            record["programs"] = run_programs(pool, board)
            path.write_text(json.dumps(record, indent=1))
            record["planners"] = run_planners(pool, driver.arch)
            print(f"programs run after {time.perf_counter() - began:.0f} s", flush=True)
            path.write_text(json.dumps(record, indent=1))
        pool.terminate()
    return wrong


def id_of(candidate: FoundKernel) -> str:
    """Return a kernel's text, as a key."""
    return repr(candidate.kernel)


def plan_of(candidate: FoundKernel) -> dict[str, Any]:
    """Return a kernel's plan as plain values."""
    kernel, time_ = candidate.kernel, candidate.time
    plan = {k: v for k, v in vars(kernel).items() if k != "layer"}
    more = {"grid": kernel.grid, "threads": kernel.threads, "shared_bytes": kernel.shared_bytes}
    return {**plan, **more, "resident": time_.resident, "registers": time_.registers}


def once(board: str, networks: tuple[str, ...], types: tuple[str, ...]) -> None:
    """Run each layer's kernel once, for a profiler that counts bytes; kernels are named NETWORK__LAYER__TYPE."""
    gpu, driver = load_gpu(board), Driver()
    import re

    import numpy as np

    for name, layer in layers(networks, types):
        best = best_kernels(layer, gpu, 1)[0]
        function = re.sub(r"\W", "_", f"{name}__{layer.conv.name}__{layer.type}")
        code = compile_with_nvcc(layer_source(best.kernel, function), HEADERS, gpu.arch)
        launches = launches_of(best.kernel, function)
        buffers = {key: np.ones(size, np.int8) for key, size in buffer_bytes(best).items()}
        driver.run(launches, driver.load(code.cubin, [launch.function for launch in launches]), buffers)


COUNTERS = {
    "dram__bytes_read.sum": "memory_read",
    "dram__bytes_write.sum": "memory_written",
    "lts__t_sectors_op_read.sum": "l2_sectors_read",
    "lts__t_sectors_op_write.sum": "l2_sectors_written",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "bank_conflicts",
    "gpu__time_duration.sum": "time_ns",
}


def counters(board: str, networks: tuple[str, ...], types: tuple[str, ...]) -> dict[str, Any]:
    """Return the bytes that each kernel moved, by the profiler's counters (ncu), or the error's text."""
    command = [
        "ncu",
        "--csv",
        "--clock-control",
        "none",
        "--metrics",
        ",".join(COUNTERS),
        sys.executable,
        "-m",
        "bench.accelerators.gpu",
        "--once",
        "--board",
        board,
        "--networks",
        ",".join(networks),
        "--types",
        ",".join(types),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or not lines:
        return {"error": (done.stdout + done.stderr)[-600:]}
    by_kernel: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines):
        if row.get("Metric Name") in COUNTERS:
            value = float(row["Metric Value"].replace(",", ""))
            unit = row["Metric Unit"]
            value *= {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3, "ms": 1e6}.get(unit, 1.0)
            by_kernel.setdefault(row["Kernel Name"].split("(")[0], {})[COUNTERS[row["Metric Name"]]] = value
    return by_kernel


def main() -> None:
    """Measure here, or make a record of what was measured elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="FILE")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--board", default="h100")
    parser.add_argument("--networks", default=",".join(NAMES))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--candidates", type=int, default=1, help="kernels of each layer that are timed")
    parser.add_argument("--no-checks", action="store_true")
    parser.add_argument("--no-programs", action="store_true")
    parser.add_argument("--no-counters", action="store_true")
    parser.add_argument("--limit", type=float, default=400.0, help="seconds after which no other layer is begun")
    options = parser.parse_args()
    networks, types = tuple(options.networks.split(",")), tuple(options.types.split(","))
    if options.once:
        once(options.board, networks, types)
        return
    if options.record is not None:
        from bench.accelerators.gpu_record import write_record

        write_record(json.loads(options.record.read_text()))
        return
    if options.measure is None:
        parser.error("name --measure FILE or --record FILE")
    try:
        facts = Driver().facts()
    except MavcgError as error:
        print(f"not run: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    print(facts, flush=True)
    wrong = measure(
        options.measure,
        options.board,
        networks,
        types,
        options.candidates,
        not options.no_checks,
        not options.no_programs,
        options.limit,
    )
    if not options.no_counters:
        record = json.loads(options.measure.read_text())
        record["counters"] = counters(options.board, ("vgg16",), ("f32",))
        options.measure.write_text(json.dumps(record, indent=1))
        print("counters:", str(record["counters"])[:300])
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
