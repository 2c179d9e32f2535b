"""Cortex-A55, A75 and A76 by the model: networks by strategy, and the share of peak that kernels' loops reach.

    python -m bench.selection_boards                 both: bench/results/selection_loops.json, selection_boards.json
    python -m bench.selection_boards --kernels       the loops alone
    python -m bench.selection_boards --networks      the networks alone

Nothing is measured. A network's time is the sum over its convolutions and conversions, as `mavcg select` computes it,
on one thread and on all cores of the cluster. A loop's share is its multiply-adds per cycle in the pipeline model of
`mavcg estimate`, over the maximum that the core's file states. The loop is the one with the most multiply-adds per
iteration, as in a build (after the machine passes, if the core has them). If an in-order core reaches less than 95
percent, a longer search for a schedule is tried, too. On an A75, loads are split in loops of the kind for which
splitting was measured to pay; its model sees no gain there.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, write
from bench.selection_networks import NETWORKS
from mavcg.assembly.asm_input import AsmInput
from mavcg.assembly.asm_source import AsmSource
from mavcg.assembly.loop_estimates import estimate_function
from mavcg.assembly.tuning import tune_version
from mavcg.assembly.tuning_options import has_machine_passes
from mavcg.assembly.version_tuning import TuningJob
from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.report.paper_tables import tables_json
from mavcg.choose.algorithms.select_network import select_network
from mavcg.choose.algorithms.select_workers import board_of
from mavcg.choose.algorithms.strategies import Selected
from mavcg.choose.lowering.kernel_code import HEURISTIC_SECONDS, KERNEL_FLAGS, kernel_module, version_symbol
from mavcg.graph.layout import dense_strides
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.int8.specs import QConv2d
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import parse_source
from mavcg.profiles.load import cores_for
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.primitive import Epilogue, Scenario
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target

TARGET = parse_target("aarch64-linux-gnu.2.17")
# A core, and a board that has it.
PLACES = {"cortex-a55": "rk3588", "cortex-a75": "exynos9820", "cortex-a76": "rk3588"}
F32_MACS, DOT_MACS = 4, 16  # of an instruction on a whole vector
COMPILED, RESCHEDULED, AT_LENGTH = "compiled", "as a build reschedules it", "with 35 seconds for its schedule"
ENOUGH = 0.95  # of the peak: no longer search for a better schedule
FMA, DOT = ("fmla_q", "fmla_lane_q"), ("dot_q", "dot_lane_q")
WIDE, POINTWISE = Scenario(64, 56, 56, 1, 3, 64, 1), Scenario(256, 28, 28, 1, 1, 256)
LATE, FIVE = Scenario(128, 28, 28, 1, 3, 128, 1), Scenario(48, 27, 27, 1, 5, 128, 2)
# Families' products in the layouts that each is best in.
PRODUCTS = (
    ("implicit_gemm_hwc_hwc", WIDE),
    ("implicit_gemm_hwc_hwc", POINTWISE),
    ("direct_blocked_channels_hwc_hwc", WIDE),
    ("im2row_strips_hwc_hwc", WIDE),
    ("im2col_strips_chw_chw", WIDE),
    ("kn2col_acc_hwc_hwc", WIDE),
    ("winograd_2d_f4_k3_hwc_hwc", LATE),
    ("winograd_2d_f4_k3_staged_hwc_hwc", LATE),
    ("fft_hwc_hwc", FIVE),
)


@dataclass(frozen=True)
class Kernel:
    """A kernel to compile: the stage of a primitive with most work, or an 8-bit convolution of the engine."""

    name: str
    spec: KernelSpec
    macs: int
    classes: tuple[str, ...]


def kernels() -> Iterator[Kernel]:
    """Return the kernels in f32, then in 8 bits."""
    lanes = packing_for(TARGET).lanes
    for name, s in PRODUCTS:
        weights = np.zeros((s.m, s.c // s.groups, s.k, s.k), np.float32)
        stages = find_primitive(name).lower(s, weights, Epilogue(bias=True), lanes).stages
        spec = max((stage.spec for stage in stages), key=lambda spec: spec.work)
        yield Kernel(f"{name}, {s.k}x{s.k}", spec, F32_MACS, FMA)
    for s in (WIDE, POINTWISE):
        x, out = (1, s.h + 2 * s.pad, s.w + 2 * s.pad, s.c), (1, s.out_h, s.out_w, s.m)
        convolution = QConv2d(
            x=View("i8", x, dense_strides(x)),
            out=View("i8", out, dense_strides(out)),
            kernel=(s.k, s.k),
            stride=(1, 1),
            dilation=(1, 1),
            groups=1,
            lanes=lanes,
            epilogue=Int8Epilogue(0, -128, 127, "i8"),
            narrow=True,
        )
        yield Kernel(f"qconv2d_i8, {s.k}x{s.k}", convolution, DOT_MACS, DOT)


@dataclass(frozen=True)
class MainLoop:
    """The loop of one block with most multiply-adds per iteration, and the cycles of an iteration."""

    macs: int
    cycles: float


def main_loop(text: str, timing: Timing) -> MainLoop | None:
    """Return the main loop of assembly; None if no loop multiplies and adds."""
    statements = parse_source(text)
    functions = functions_of(statements)
    code = AsmInput(AsmSource(text, "kernel"), statements, functions)
    loops = [
        MainLoop(block.work.macs, block.estimate.cycles)
        for function in functions
        for block in estimate_function(code, function, timing)
        if block.kind == "loop" and block.estimate is not None and block.work.macs
    ]
    return max(loops, key=lambda loop: (loop.macs, -loop.cycles), default=None)


def loop_row(kernel: Kernel, core: Core, folder: Path) -> dict[str, Any]:
    """Return the row of a kernel's main loop on a core: compiled and, if a build would do so, rescheduled."""
    machine, timing = machines_for((core,), TARGET)[core.name], load_timing(core)
    text, out = kernel_module([kernel.spec], machine, core.name, TARGET), folder / "kernel.s"
    symbol = version_symbol(kernel_name(kernel.spec), core.name)
    job = CodegenJob(text, TARGET, f"compiling {kernel.name}", opt_level="2", emit="asm", flags=KERNEL_FLAGS)
    compile_module(job, out)
    compiled = out.read_text()
    loops = {COMPILED: main_loop(compiled, timing)}
    peak = kernel.macs * max(timing.of(name).per_cycle for name in kernel.classes)
    if has_machine_passes(core):
        for how, heuristic_s, exact_s in ((RESCHEDULED, HEURISTIC_SECONDS, 0.0), (AT_LENGTH, 5.0, 30.0)):
            known = loops.get(RESCHEDULED)
            if how == AT_LENGTH and (
                timing.order != "in" or known is None or known.macs >= ENOUGH * peak * known.cycles
            ):
                break
            asked = TuningJob(core, compiled, symbol, "", symbol, "", True, heuristic_s, account=False)
            loops[how] = main_loop(tune_version(asked, exact_s)[0], timing)
    row: dict[str, Any] = {"core": core.name, "kernel": kernel.name, "peak_macs_per_cycle": peak}
    for how, loop in loops.items():
        if loop is not None:
            share = loop.macs / loop.cycles / peak
            row[how] = {"macs": loop.macs, "cycles": loop.cycles, "share_of_peak": share}
    return row | {"share_of_peak": row[list(loops)[-1]]["share_of_peak"]}


def loops() -> list[dict[str, Any]]:
    """Return the rows of all kernels on all cores."""
    rows = []
    every = list(kernels())
    with tempfile.TemporaryDirectory() as folder:
        for core in cores_for(list(PLACES)):
            for kernel in every:
                row = loop_row(kernel, core, Path(folder))
                rows.append(row)
                shares = "; ".join(
                    f"{how} {row[how]['macs']} in {row[how]['cycles']:g} cycles"
                    for how in (COMPILED, RESCHEDULED, AT_LENGTH)
                    if how in row
                )
                share, peak = row["share_of_peak"], row["peak_macs_per_cycle"]
                print(f"{core.name:11} {kernel.name:40} {share:6.1%} of {peak:g} multiply-adds a cycle: {shares}")
    return rows


def networks() -> list[dict[str, Any]]:
    """Yield the rows of every network on every core, with one thread and all of its cluster; all costs are modelled.

    The record is written after each core, because all of it takes minutes.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder) / "costs.sqlite"
        open_db(nothing).close()
        for core, board in PLACES.items():
            for name, made in NETWORKS.items():
                if name == "densenet121_joined":  # the same convolutions as densenet121
                    continue
                network = made()
                question = SelectQuestion(core=core, threads=threads_of(board, core), db=nothing)
                selection = select_network(name, network, board, question)
                rows.append(
                    {
                        "core": core,
                        "board": board,
                        "network": name,
                        "macs": sum(node.scenario.macs for node in network.convolutions if node.scenario),
                        "optimal": selection.optimal,
                        "solver_seconds": selection.selected.solver_seconds,
                        "arena_bytes": selection.need.bytes if selection.need else None,
                        "tables": tables_json(selection),
                        "families": _families(selection.selected),
                    }
                )
                _show(core, name, rows[-1]["tables"])
            print(write("selection_boards", facts("predicted", "bench.selection_boards") | {"rows": rows}))
    return rows


def _show(core: str, network: str, tables: Sequence[Mapping[str, Any]]) -> None:
    for row in tables:
        each = ((name.removeprefix("family:"), ms) for name, ms in row["ms"].items() if ms is not None)
        shown = ", ".join(f"{strategy} {ms:.2f}" for strategy, ms in each)
        faster = row["faster_than_sum2d"]["pbqp"] or math.nan
        print(f"{core:11} {network:12} ({row['row']}) {row['threads']}: {shown} ms; pbqp {faster:.2f}x sum2d (S)")


def threads_of(board: str, core: str) -> int:
    """Return the number of cores of a kind."""
    return sum(len(cluster.cpus) for cluster in board_of(board).clusters if cluster.core == core)


def _families(selected: Selected) -> dict[str, int]:
    counts: dict[str, int] = {}
    for alternative in selected.choice.chosen.values():
        if alternative.primitive is not None:
            counts[alternative.primitive.family] = counts.get(alternative.primitive.family, 0) + 1
    return counts


def main() -> None:
    """Predict, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--networks", action="store_true")
    options = parser.parse_args()
    both = options.kernels == options.networks
    if both or options.kernels:
        print(write("selection_loops", facts("predicted", "bench.selection_boards") | {"rows": loops()}))
    if both or options.networks:
        networks()


if __name__ == "__main__":
    main()
