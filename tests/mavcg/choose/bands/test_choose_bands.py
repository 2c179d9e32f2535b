"""Layers by bands of rows: chosen where the model of caches says that it pays, on every cluster, with the same bits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.program_runner import ProgramRunner
from mavcg.accelerators.networks import with_seeded_weights
from mavcg.choose.bands.band_model import banded_steps
from mavcg.choose.bands.banded_range import ON, DepthFirst
from mavcg.choose.bands.choose_bands import with_bands
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.row_phases import divide_rows, program_rows
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.plan import Plan
from mavcg.choose.predict.program_work import step_works
from mavcg.cost.board_model import board_model
from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder
from mavcg.hardware.board import Board, Cluster
from mavcg.memory.row_segments import StepRange
from mavcg.model.model_request import PlanContext
from mavcg.model.stages import LAY_OUT, choose_bands, run_stages
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import load_cores
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Packing
from mavcg.toolchain.target import host_target, parse_target

CORE = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
SIDE = 40
NARROW = Cluster(  # without a level 3, and memory is far slower than level 2
    CORE, (0,), 2_000_000, 4096, 65536, 1, l2_gb_per_s=40.0, l3_gb_per_s=0.5, memory_gb_per_s=0.5, l3_bytes=65536
)
ROOMY = replace(NARROW, cpus=(1,), l2_bytes=64 << 20)


@cache
def inverted_residual() -> Graph:
    """An inverted residual with a sum, as MobileNet v2 has them, behind a first convolution."""
    net = NetworkBuilder("net", SIDE, SIDE)
    x = net.relu6(net.conv(net.image, "stem", 8, 3, pad=1, act=""))
    y = net.relu6(net.conv(x, "expand", 48, 1, act=""))
    y = net.relu6(net.conv(y, "depthwise", 48, 3, pad=1, groups=48, act=""))
    x = net.add(net.conv(y, "project", 8, 1, act=""), x, "sum")
    return optimise(with_seeded_weights(net.finish(x)))


def board(*clusters: Cluster) -> Board:
    return Board("test", "", host_target().zig_name, clusters)


def planned_model() -> Plan:
    return plan_lowered(lower_graph(inverted_residual(), Packing(lanes=16 if CORE == "haswell" else 8)))


@cache
def chosen(own: Board, careful: bool = True) -> Plan:
    made = with_bands(planned_model(), board_model([load_cores()[CORE]], host_target(), own), careful)
    return divide_rows(replace(plan_lowered(made.lowered), rows=made.rows, bands=made.bands))


def test_bands_are_chosen_where_memory_is_slow() -> None:
    """The same bits, in less memory, in an arena with guards; several sizes of parts of each phase."""
    made = chosen(board(NARROW))
    whole = planned_model()
    names = [each.as_json() for each in made.bands]
    steps = [whole.lowered.steps[n].name for each in made.bands for n in range(each.steps.begin, each.steps.end)]
    assert {"expand", "depthwise"} <= set(steps)
    assert all(row["modelled_ms"][CORE]["bands"] < row["modelled_ms"][CORE]["layer_by_layer"] for row in names)
    assert made.program.arena_bytes < 0.8 * whole.program.arena_bytes and made.program.phases

    x = np.random.default_rng(0).standard_normal((1, SIDE, SIDE, 3)).astype(np.float32)
    machine = machines_for([load_cores()[CORE]], host_target())[CORE]
    runner = ProgramRunner(made.lowered, machine)
    right = runner.run(x)[0]
    runner.program = made.program
    for runner.parts in (1, 3):
        assert runner.run(x)[0].tobytes() == right.tobytes()


def test_nothing_is_chosen_where_caches_hold_the_images() -> None:
    made = chosen(board(ROOMY))
    assert made.bands == () and not made.program.phases


def test_bands_have_to_pay_on_every_cluster() -> None:
    assert chosen(board(NARROW)).bands and chosen(board(NARROW, ROOMY)).bands == ()


def test_two_cores_pass_rows_of_bands_between_their_own_caches() -> None:
    """No bands where each has a level 2 and what is behind it is slow; bands again where they share one."""
    pair = replace(NARROW, cpus=(0, 1))
    assert chosen(board(NARROW)).bands and chosen(board(pair)).bands == ()
    assert chosen(board(replace(pair, l2_cores=2, l2_bytes=2 * 65536))).bands


def test_a_gain_within_the_doubt_is_not_taken() -> None:
    """Memory that is a little slower than level 2: faster by the model, and not by more than its cost safety factor."""
    near = replace(NARROW, l3_gb_per_s=28.0, memory_gb_per_s=28.0)
    assert chosen(board(near), careful=False).bands and not chosen(board(near)).bands


@pytest.mark.long
def test_kernels_by_bands_have_the_shares_of_each_core_as_others_have() -> None:
    """Bands change a kernel to rows of the image, which is another kernel, with shares of its own."""
    target = parse_target("aarch64-linux-gnu")
    names = ("cortex-a55", "cortex-a75")
    slow = [replace(NARROW, core=name, cpus=(cpu,), l2_bytes=32768) for cpu, name in enumerate(names)]
    model = board_model([load_cores()[name] for name in names], target, Board("two", "", target.zig_name, tuple(slow)))
    planned = plan_lowered(lower_graph(inverted_residual(), Packing(lanes=4)))
    context = PlanContext(model, depth_first=ON)
    made = run_stages(planned, context, (choose_bands, *LAY_OUT))

    assert made.bands
    assert all([label for label, _ in step.core_speeds] == list(model.versions) for step in made.program.steps)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a75"])
def test_an_arm_boards_choice_follows_its_level_2(core: str) -> None:
    """The same core type and memory: bands where level 2 is small, and none where it is large, alone or beside it."""
    target = parse_target("aarch64-linux-gnu")
    planned = plan_lowered(lower_graph(inverted_residual(), Packing(lanes=8)))

    def ranges(*clusters: Cluster) -> tuple[DepthFirst, ...]:
        own = Board("test", "", "aarch64-linux-gnu", clusters)
        model = board_model([load_cores()[core]], target, own)
        return with_bands(planned, model).bands

    narrow, roomy = replace(NARROW, core=core), replace(ROOMY, core=core)
    chosen_ranges = ranges(narrow)
    assert chosen_ranges and all(each.times[0].cluster == core for each in chosen_ranges)
    assert ranges(roomy) == () and ranges(narrow, roomy) == ()


@pytest.mark.parametrize("band", [1, 2, 4])
def test_the_steady_state_is_that_of_the_schedule(band: int) -> None:
    """Rows and calls of each step in the middle of the schedule that bands have."""
    made = chosen(board(NARROW))
    rows, works = program_rows(made.lowered), step_works(made)
    begin, end = made.bands[0].steps.begin, made.bands[0].steps.end
    banded = banded_steps(rows, works, StepRange(begin, end, 0, band))
    assert banded is not None
    for number, step in enumerate(banded, begin):
        computed = step.count * step.work.rows
        assert (
            works[number].rows <= computed + step.work.rows + 2 and computed <= works[number].rows + 2 * step.work.rows
        )
        if not works[number].op == "pad":
            assert abs(step.count * step.work.macs - works[number].macs) <= works[number].macs / 4
