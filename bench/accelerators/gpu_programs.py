"""Whole programs on a GPU, for bench/accelerators/gpu.py.

Networks by their host programs, and plans as the paper's planners make them.
"""

import json
import subprocess
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.accelerators.gpu.cuda_project import emit_network, emit_plans, unique_names
from mavcg.accelerators.plans import baselines, exact
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import performance_per_access
from mavcg.accelerators.plans.space import Planned
from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks import NAMES, network
from mavcg.graph.networks.builder import drawn_constants
from mavcg.graph.reference.evaluate import run
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.accelerators import find_accelerator
from mavcg.profiles.gpus import load_gpu

SEED = 20261123
SETUP = "setup-a"
# The networks whose plans are run: those of few and of many layers, small enough for some thousand copies each.
PLANNED_NETWORKS = ("alexnet", "squeezenet")


def without_softmax(graph: Graph) -> Graph:
    """Return a graph without its last softmax, which gives nearly one class alone with random weights."""
    last = graph.nodes[-1]
    return replace(graph, nodes=graph.nodes[:-1], outputs=(last.inputs[0],)) if last.op == "softmax" else graph


def built_program(task: tuple[str, str, str, str]) -> dict[str, Any]:
    """Emit and compile a network's host program, and compute its answer. Runs in a process of its own."""
    name, type_name, board, folder = task
    gpu = load_gpu(board)
    graph = without_softmax(optimise(network(name)))
    at = Path(folder) / f"{name}-{type_name}"
    try:
        emit_network(graph, type_name, gpu, at)
        command = ["nvcc", f"-arch={gpu.arch}", "-std=c++17", "-O2", "-o", "network", "network.cu"]
        done = subprocess.run(command, cwd=at, capture_output=True, text=True)
        if done.returncode:
            return {"network": name, "type": type_name, "error": (done.stdout + done.stderr)[-500:]}
    except MavcgError as error:
        return {"network": name, "type": type_name, "error": str(error)}
    rng = np.random.default_rng(SEED)
    (image,) = [name for name in graph.inputs if len(graph.types[name].shape) == 4 and "." not in name]
    x = rng.standard_normal(graph.types[image].shape, np.float32)
    x.tofile(at / "input.bin")
    constants = drawn_constants(graph, [name for name in graph.inputs if name != image])
    (expected,) = run(graph, *(x if name == image else constants[name] for name in graph.inputs), wide=True)
    np.asarray(expected, np.float64).tofile(at / "expected.bin")
    return {"network": name, "type": type_name, "folder": str(at)}


def run_programs(pool: Any, board: str) -> list[dict[str, Any]]:
    """Return the milliseconds and the error against the reference of each network's host program."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(name, type_name, board, folder) for name in NAMES for type_name in ("f32", "f16")]
        for built in pool.map(built_program, tasks, chunksize=1):
            if "error" not in built:
                at = Path(built.pop("folder"))
                command = ["./network", "input.bin", "output.bin", "weights.bin"]
                done = subprocess.run(command, cwd=at, capture_output=True, text=True)
                if done.returncode:
                    built["error"] = done.stderr[-500:]
                else:
                    made, expected = np.fromfile(at / "output.bin", np.float32), np.fromfile(at / "expected.bin")
                    built["ms"] = json.loads(done.stdout)["ms"]
                    built["relative_error"] = float(np.linalg.norm(made - expected) / np.linalg.norm(expected))
            rows.append(built)
    return rows


def planned_by(planner: str, name: str) -> list[Planned]:
    """Return a network's convolutions as a planner of table 8.3, or ours, plans them for SETUP."""
    machine = find_accelerator(SETUP)
    search = partial(exact.search, options=exact.ExactOptions(model="halo"))
    chosen = search if planner == "mavcg" else partial(baselines.plan, planner)
    # Convolutions: plans of large products are many thousand commands, which nvcc takes minutes for.
    layers = layers_of(network(name), fully_connected=False)
    plan_of = {layer.key: chosen(layer, machine, performance_per_access) for layer in layers}
    return [plan_of[layer.key] for layer in layers]


def built_plans(task: tuple[str, str, str, str]) -> dict[str, Any]:
    """Emit and compile the programs of a network's plans. Runs in a process of its own."""
    name, planner, arch, folder = task
    at = Path(folder) / f"{name}-{planner}"
    try:
        plans = [emit_plan(plan.layer, plan.tiling, find_accelerator(SETUP)) for plan in planned_by(planner, name)]
        rows = emit_plans(plans, arch, at)
    except MavcgError as error:
        return {"network": name, "planner": planner, "error": str(error)}
    functions = unique_names([plan.name for plan in plans])
    for function in functions:
        command = ["nvcc", f"-arch={arch}", "-O2", "-o", function, f"{function}.cu"]
        try:
            done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired:
            return {"network": name, "planner": planner, "error": f"{function}: nvcc takes more than 90 seconds"}
        if done.returncode:
            return {"network": name, "planner": planner, "error": (done.stdout + done.stderr)[-500:]}
    moved = sum(row["moved_bytes"] for row in rows)
    sizes = [(int(np.prod(p.info.input)), int(np.prod(p.info.weight or ()))) for p in plans]
    return {
        "network": name,
        "planner": planner,
        "folder": str(at),
        "planned_bytes": moved,
        "functions": functions,
        "sizes": sizes,
    }


def run_planners(pool: Any, arch: str, limit_s: float = 120.0) -> list[dict[str, Any]]:
    """Return milliseconds, bytes and copies of the plans of each planner, summed over a network's layers."""
    began, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(n, planner, arch, folder) for n in PLANNED_NETWORKS for planner in ("mavcg", *baselines.BASELINES)]
        for built in pool.map(built_plans, tasks, chunksize=1):
            if "error" not in built and time.perf_counter() - began > limit_s:
                built["error"] = "no time left"
            if "error" not in built:
                at, total = Path(built["folder"]), {"ms": 0.0, "bytes": 0, "copies": 0}
                for function, (inputs, weights) in zip(built["functions"], built["sizes"], strict=True):
                    np.ones(inputs, np.float32).tofile(at / "input.bin")
                    np.ones(weights, np.float32).tofile(at / "weight.bin")
                    command = [f"./{function}", "input.bin", "weight.bin", "output.bin"]
                    done = subprocess.run(command, cwd=at, capture_output=True, text=True)
                    if done.returncode:
                        built["error"] = done.stderr[-500:]
                        break
                    for key, value in json.loads(done.stdout).items():
                        total[key] += value
                built |= total
            rows.append({key: value for key, value in built.items() if key not in ("folder", "functions", "sizes")})
    return rows
