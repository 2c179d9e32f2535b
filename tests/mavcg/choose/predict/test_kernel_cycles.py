"""Cycles of kernels: assembly with named blocks against figures worked out by hand, and a compiled kernel."""

from dataclasses import replace
from typing import Any

import pytest

from mavcg.choose.predict.asm_blocks import BlockCost, BuiltLoop, block_costs, cycles_as_built
from mavcg.choose.predict.cluster_kernels import version_of
from mavcg.choose.predict.kernel_cycles import PIPELINE, RATES, KernelModel, KnownModels, kernel_models, task_cycles
from mavcg.cost.board_model import core_model
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import X86
from mavcg.hardware.issue_rates import x86_rates
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for
from mavcg.toolchain.target import Target, parse_target

# The loop of tests/mavcg/cli/conftest.py's dot: 8 cycles on an A55, by the facts of its file.
NAMED = """\
\t.text
\t.globl\t"k.cortex-a55"
\t.type\t"k.cortex-a55",@function
"k.cortex-a55":                         // @k.cortex-a55
// %bb.0:                               // %entry
\tmov\tx4, #0
.LBB0_1:                                // %k_body.2
                                        // =>This Inner Loop Header: Depth=1
\tldr\tq0, [x1], #16
\tldr\tq1, [x2], #16
\tfmla\tv2.4s, v0.4s, v1.4s
\tsubs\tx0, x0, #4
\tb.ne\t.LBB0_1
// %bb.2:                               // %k_end
\tstr\tq2, [x3]
\tret
\t.size\t"k.cortex-a55", .-"k.cortex-a55"
"""


def alone(core: str, target: Target) -> CoreModel:
    """One core of its type, of a board that says nothing else."""
    return core_model(Board("one", "", target.zig_name, (Cluster(core, (0,)),)), 0)


def whole_cycles(kernel: KernelModel, rows: int, grain: int) -> float:
    """Cycles of all tasks: the first stands for all whole ones."""
    first, last, tasks = task_cycles(kernel, rows, grain)
    return first * (tasks - 1) + last


def test_blocks_are_known_by_the_emitter_s_names() -> None:
    costs = block_costs(NAMED, {"k.cortex-a55": "k"}, load_timing(load_core("cortex-a55")))

    assert set(costs["k"]) == {"entry", "k_body.2", "k_end"}
    assert costs["k"]["k_body.2"] == BlockCost(7.0, 8, True)
    assert costs["k"]["entry"] == BlockCost(1.0, 0, False)


def test_a_built_loop_with_the_same_arithmetic_counts_instead() -> None:
    blocks = {"k_body": BlockCost(7.0, 8, True), "entry": BlockCost(3.0, 8, False), "copy": BlockCost(2.0, 0, True)}
    built = [BuiltLoop(10.0, 16), BuiltLoop(6.0, 8), BuiltLoop(1.0, 24), BuiltLoop(0.5, 0)]

    assert cycles_as_built(blocks, built) == {"k_body": 5.0, "entry": 3.0, "copy": 2.0}
    assert cycles_as_built(blocks, [BuiltLoop(9.0, 8)])["k_body"] == 7.0


def test_a_kernel_on_an_arm_core_is_put_to_its_pipeline_model(make: Any) -> None:
    core, target = load_core("cortex-a55"), parse_target("aarch64-linux-gnu.2.17")
    machine = machines_for([core], target)["cortex-a55"]
    spec = make.conv(lanes=8)
    (kernel,) = kernel_models([spec], alone("cortex-a55", target).running(machine), target).values()
    cycles = whole_cycles(kernel, spec.rows, 1)

    assert kernel.how == PIPELINE
    # One fmla of four lanes a cycle is the roof of an A55; half of it is what an untuned loop reaches at least.
    assert spec.work / 8 < cycles < spec.work / 8 * 2.5


def test_a_known_model_is_of_the_same_core_and_rates(make: Any) -> None:
    target = parse_target("aarch64-linux-gnu.2.17")
    little, big = (alone(name, target) for name in ("cortex-a55", "cortex-a76"))
    spec, known = make.conv(lanes=8), KnownModels()
    (first,) = kernel_models([spec], little, target, known=known).values()
    (again,) = kernel_models([spec], little, target, known=known).values()
    assert again is first

    faster = replace(little, rates=replace(little.rates, miss_cycles=0))
    other_core = big.running(little.machine)
    others = [next(iter(kernel_models([spec], core, target, known=known).values())) for core in (faster, other_core)]
    assert others[0].miss_cycles == 0 < first.miss_cycles and others[1] is not first
    assert others[1].block_cycles != first.block_cycles and len(known) == 3


def test_a_kernel_on_x86_is_near_its_multiply_add_roof(make: Any) -> None:
    target = parse_target("x86_64-linux-gnu.2.17")
    core = load_core("znver3")
    machine = machines_for([core], target)["znver3"]
    spec = make.conv(14, 14, 64, 64)
    (kernel,) = kernel_models([spec], alone("znver3", target).running(machine), target).values()
    cycles = whole_cycles(kernel, spec.rows, 2)

    assert kernel.how == RATES
    assert spec.work / 32 <= cycles < spec.work / 32 * 1.3
    assert cycles == pytest.approx(sum(kernel.range_cycles(row, row + 2) for row in range(0, 14, 2)))


def test_what_a_core_s_file_lacks_is_said() -> None:
    typical = fit_of_kind(X86).typical_rates
    rates, assumed = x86_rates(None, typical, 13.0)

    assert rates == typical and "not recognised" in assumed[0]
    assert x86_rates(load_core("znver3"), typical, 13.0)[1] == ()


def test_a_core_runs_its_version_or_a_stand_in_s_or_the_generic_one() -> None:
    core = load_core("znver3")

    assert version_of(core, None) == "znver3" == version_of(core, ["generic", "znver3", "znver2"])
    assert version_of(core, ["generic", "znver1", "znver2"]) == "znver2"  # the best stand-in
    assert version_of(core, ["generic", "haswell"]) == "generic" == version_of(None, None)
