"""Planned macro-tiles against fixed ones on whole networks, one thread: `python -m bench.planned_tiles [MODEL..]`.

Every network is compiled with the planner's macro-tiles and with each of a few fixed macro-tiles for all layers. Within
a run the steps use the plans in random order, drawn anew for each round; a round has as many runs as there are plans
and executes each step once by each plan. A period in which the CPU is slow (here tenths of a second, as long as a
network takes) thus affects all plans alike, whereas whole runs of one plan differed by some percent. All plans compute
the same results, so a step may follow a step of any plan; weights come from memory and code from level 3, as in a
library. Each step's CPU time is measured. A step's ratio is of two plans in the same round, and the median over rounds
counts. There are two rivals: the best single tile for all layers, and the best fixed tile of each layer. The best ones
are chosen by the even rounds and compared in the odd ones; otherwise a minimum over measurements would profit from
their noise.
"""

import argparse
import ctypes
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from bench.jit import Compiled, Loops, host_machine
from bench.models import model_path, shapes_of
from bench.record import facts, write
from bench.tables.catalogue import show_record
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.tiles.candidates import plain_tile
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.kernel_work import work_of
from mavcg.hosts.host import measured_host_board
from mavcg.importers.load import import_model
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import emit
from mavcg.passes.graph.pipeline import optimise
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Array, KernelSpec, Machine
from mavcg.specs.model_program import OperandAddress
from mavcg.specs.tile_plan import MacroTile, Order, TilePlan, worthwhile_call_rows
from mavcg.toolchain.target import host_target

NETWORKS = ("squeezenet-random", "mobilenet_v2", "resnet50-random", "vgg19-random")
# What each layer is given, on top of what the emitter takes when it is told nothing.
FIXED: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "2 vectors": {"nr": 16},
    "4 vectors": {"nr": 32},
    "256 terms": {"kc": 256},
    "prefetch": {"prefetch_distance_bytes": 4096},
    "channels outside": {"nc": 64, "mc": 4, "order": Order.CHANNELS},
}
SECONDS, ROUNDS, WARM = 60.0, (24, 320), 2  # of a network; the least and the most rounds in them


def fixed_plan(specs: Sequence[KernelSpec], label: str, change: Mapping[str, Any]) -> TilePlan:
    """Return the plan with the same macro-tile for all kernels."""
    tiles: dict[tuple[str, str], MacroTile] = {}
    for spec in specs:
        work = work_of(spec)
        if work is not None and spec.rows:
            tiles[kernel_name(spec), label] = replace(plain_tile(work, worthwhile_call_rows(spec)), **change)
    return TilePlan(tiles)


@dataclass(frozen=True)
class Call:
    """A step of the network: its code's driver and arguments, and the rows of a task."""

    name: str
    kernel: int
    args: Any
    rows: int
    grain: int


class Network:
    """A lowered network in this process: its buffers, and the calls of each plan."""

    def __init__(self, name: str, machine: Machine) -> None:
        graph = optimise(import_model(model_path(name), shapes_of(name)), lambda stage, graph: None)
        self.machine, self.lowered = machine, lower_graph(graph, packing_for(host_target()))
        model = plan_lowered(self.lowered)
        self.program = program = model.program
        self.bases = {"arena": buffer(program.arena_bytes), "constants": buffer(program.constants_bytes)}
        self.bases["constants"][:] = np.frombuffer(pack_weights(model.memory, self.lowered.graph.constants), np.uint8)
        self.inputs = [buffer(t.type.bytes) for t in program.inputs]
        self.outputs = [buffer(t.type.bytes) for t in program.outputs]
        rng = np.random.default_rng(0)
        for buffer_, tensor in zip(self.inputs, program.inputs, strict=True):
            buffer_[:] = rng.standard_normal(tensor.type.bytes // 4).astype(np.float32).view(np.uint8)
        self.scratch = buffer(program.scratch_bytes)
        # One array of operands a step for all plans: of two alike the one whose lay apart was half a percent slower.
        self.args = [(ctypes.c_void_p * len(s.operands))(*map(self.address_of, s.operands)) for s in program.steps]
        self.codes: dict[tuple[str, MacroTile | None], Compiled] = {}
        self.loops = Loops(machine)

    def kernel(self, spec: KernelSpec, macro: MacroTile | None) -> int:
        """Return the address of a kernel's code, compiled once for macro-tiles that differ only in the task."""
        key = (kernel_name(spec), replace(macro, call_rows=1) if macro else None)
        if key not in self.codes:
            module = ir.Module("kernel")
            module.triple = llvm.get_default_triple()
            emit(module, spec, self.machine, macro)
            self.codes[key] = Compiled(add_core_attributes(module, self.machine), self.machine)
        return self.codes[key].address(kernel_name(spec))

    def calls(self, plan: TilePlan) -> list[Call]:
        """Return the steps' calls under a plan."""
        specs = {kernel_name(spec): spec for spec in self.lowered.specs}
        calls = []
        for step, args in zip(self.program.steps, self.args, strict=True):
            macro = plan.of(step.kernel, self.machine.name)
            grain = macro.call_rows if macro else step.min_chunk_rows
            calls.append(Call(step.name, self.kernel(specs[step.kernel], macro), args, step.rows, grain))
        return calls

    def address_of(self, operand: OperandAddress) -> int:
        """Return the address of an operand."""
        base = {"input": self.inputs, "output": self.outputs}.get(operand.base)
        return int((base[operand.index] if base else self.bases[operand.base]).ctypes.data) + operand.offset

    def run(self, calls: Sequence[Call]) -> list[int]:
        """Return the nanoseconds of each step."""
        scratch, took = self.scratch.ctypes.data, list[int]()
        for call in calls:
            start = time.thread_time_ns()
            self.loops.tasks(call.kernel, ctypes.addressof(call.args), call.rows, call.grain, scratch, 1)
            # A virtual machine's clock of a thread stands still now and then; a median does not mind one such step.
            took.append(max(1, time.thread_time_ns() - start))
        return took


def buffer(size: int) -> Array:
    """Return a buffer of so many bytes that begins at a page."""
    raw = np.zeros(size + 4096 + 64, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size]


def compiled(name: str) -> tuple[Network, dict[str, list[Call]]]:
    """Return a network, and the calls of the planned tiles and of all fixed ones."""
    machine = host_machine()
    network = Network(name, machine)
    lowered = network.lowered
    core = cores_of([machine.name], host_target(), measured_host_board())
    plans = {"planned": plan_tiles(lowered.specs, core)}
    plans |= {label: fixed_plan(lowered.specs, machine.name, change) for label, change in FIXED.items()}
    calls = {label: network.calls(plan) for label, plan in plans.items()}
    print(f"bench: {name}: {len(network.codes)} kernels compiled", file=sys.stderr, flush=True)
    return network, calls


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Return the row of one network: the planned tiles and all fixed ones, interleaved."""
    network, calls = compiled(name)
    steps = [call.name for call in calls["planned"]]
    return summary(name, timed(name, network, calls, seconds), steps)


def timed(
    name: str, network: Network, calls: Mapping[str, Sequence[Call]], seconds: float
) -> dict[str, list[list[int]]]:
    """Return the nanoseconds of each step in every round, by plan.

    Two rounds run on one CPU, the next two on the next. The order of plans of each step is random, by a fixed seed.
    """
    outputs = {}
    for label, steps in calls.items():
        for _ in range(WARM):
            network.run(steps)
        outputs[label] = b"".join(output.tobytes() for output in network.outputs)
    if len(set(outputs.values())) != 1:
        raise SystemExit(f"{name}: macro-tiles changed a result")
    once = sum(sum(network.run(steps)) for steps in calls.values()) / 1e9
    rounds = max(ROUNDS[0], min(ROUNDS[1], int(seconds / once))) // 4 * 4
    took: dict[str, list[list[int]]] = {label: [] for label in calls}
    cpus, draw = sorted(os.sched_getaffinity(0)), random.Random(0)
    for number in range(rounds):
        os.sched_setaffinity(0, {cpus[number // 2 % len(cpus)]})
        orders = [draw.sample(list(calls), len(calls)) for _ in next(iter(calls.values()))]
        ns_by_label: dict[str, list[int]] = {label: [0] * len(orders) for label in calls}
        for labels in zip(*orders, strict=True):
            for step, (label, ns) in enumerate(
                zip(labels, network.run([calls[label][step] for step, label in enumerate(labels)]), strict=True)
            ):
                ns_by_label[label][step] = ns
        for label, ns_of_steps in ns_by_label.items():
            took[label].append(ns_of_steps)
    os.sched_setaffinity(0, cpus)
    return took


def summary(name: str, took: Mapping[str, list[list[int]]], steps: Sequence[str]) -> dict[str, Any]:
    """Summarise the odd rounds; the best fixed tile, of a step and of all, is chosen from the even ones.

    A step's ratio of two plans is the median over rounds of the ratio within a round, so that a disturbed round counts
    no more than another. A network's ratio is the mean of its steps', weighted by their time as planned.
    """
    chosen_from, compared = (Compared({label: runs[first::2] for label, runs in took.items()}) for first in (0, 1))
    best = [min(FIXED, key=lambda label: chosen_from.ratios[label][i]) for i in range(len(steps))]  # noqa: B023
    fixed = min(FIXED, key=lambda label: chosen_from.whole(chosen_from.ratios[label]))
    each = [compared.ratios[label][i] for i, label in enumerate(best)]
    planned_ms = sum(compared.planned_ms)
    by_fixed, by_each = 1 / compared.whole(compared.ratios[fixed]), 1 / compared.whole(each)
    return {
        "network": name,
        "rounds": len(took["planned"]),
        "planned_ms": round(planned_ms, 4),
        "one_for_all": fixed,
        "one_for_all_ms": round(planned_ms / by_fixed, 4),
        "each_layers_best_ms": round(planned_ms / by_each, 4),
        "fixed_ms": {label: round(planned_ms * compared.whole(compared.ratios[label]), 4) for label in FIXED},
        "ratio": round(max(by_fixed, by_each), 4),
        "planned_by_each_layers_best": round(by_each, 4),
        "planned_by_one_for_all": round(by_fixed, 4),
        "steps": [
            {
                "name": step,
                "planned_ms": round(ms, 5),
                "best": best[i],
                "best_ms": round(ms * each[i], 5),
                "plain_ms": round(ms * compared.ratios["plain"][i], 5),
            }
            for i, (step, ms) in enumerate(zip(steps, compared.planned_ms, strict=True))
        ],
    }


class Compared:
    """Medians over some rounds: each step's time as planned, and each plan's ratios to it, by step."""

    def __init__(self, took: Mapping[str, Sequence[Sequence[int]]]) -> None:
        planned = list(zip(*took["planned"], strict=True))
        self.planned_ms: list[float] = [statistics.median(step) / 1e6 for step in planned]
        self.ratios = {
            label: [
                statistics.median(a / b for a, b in zip(step, beside, strict=True))
                for step, beside in zip(zip(*runs, strict=True), planned, strict=True)
            ]
            for label, runs in took.items()
        }

    def whole(self, ratios: Sequence[float]) -> float:
        """Return the network's figure from the figures of its steps."""
        total: float = sum(ms * ratio for ms, ratio in zip(self.planned_ms, ratios, strict=True))
        return total / sum(self.planned_ms)


def main() -> None:
    """Measure, print, and write bench/results/planned_tiles.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each network's runs, about")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    rows = [measure(name, args.seconds) for name in args.models]
    mean = {
        what: round(math.exp(statistics.fmean(math.log(row[what]) for row in rows)), 4)
        for what in ("ratio", "planned_by_each_layers_best", "planned_by_one_for_all")
    }
    record = {**facts("measured", "bench.planned_tiles"), "geometric_means": mean, "rows": rows}
    if args.models == NETWORKS:
        write("planned_tiles", record)
    show_record("planned_tiles", record, args.json)


if __name__ == "__main__":
    main()
