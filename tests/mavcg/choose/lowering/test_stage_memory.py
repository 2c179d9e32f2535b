"""Memory of pipelines: stages never overlap, buffers between them have a copy for each frame on its way."""

from itertools import combinations

import numpy as np
import pytest

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.stage_memory import buffer_uses, plan_stages
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.runtime.machines import packing_for
from mavcg.specs.model_program import ProgramStage
from mavcg.toolchain.target import host_target


def residual_graph() -> Graph:
    """A chain of convolutions, with a sum that skips two of them."""
    rng = np.random.default_rng(0)
    build = GraphBuilder("chain")
    at = build.input("x", TensorType("f32", (1, 8, 8, 4)))
    kept = at
    for number in range(5):
        weights = build.constant(rng.standard_normal((4, 1, 1, 4)).astype(np.float32))
        at = build.add("conv2d", (at, weights), f"conv{number}")
        if number == 0:
            kept = at
        if number == 3:
            at = build.add("add", (at, kept), "sum")
    return build.finish([at])


@pytest.mark.parametrize("cuts", [(1,), (2, 4), (1, 2, 3)])
def test_stages_share_no_byte(cuts: tuple[int, ...]) -> None:
    lowered = lower_graph(residual_graph(), packing_for(host_target()))
    planned = plan_lowered(lowered)
    steps = len(planned.program.steps)
    stages = [ProgramStage(a, b) for a, b in zip((0, *cuts), (*cuts, steps), strict=True)]
    made = plan_stages(planned, stages)
    program = made.program
    rings = {ring.offset: ring for ring in program.rings}
    stage_at = [n for n, stage in enumerate(stages) for _ in range(stage.begin, stage.end)]
    ranges: list[tuple[int, int, int]] = []  # begin, end, stage; -1: between stages
    for use in buffer_uses(lowered):
        offset = made.memory.arena.offsets[use.name]
        crossed = stage_at[use.last] - stage_at[use.first]
        if crossed:
            ring = rings.pop(offset)
            assert ring.copies == crossed + 1 and ring.stride >= use.bytes
            ranges.append((offset, offset + ring.stride * ring.copies, -1))
        else:
            ranges.append((offset, offset + use.bytes, stage_at[use.first]))
    assert not rings and program.rings
    for (a, b, one), (c, d, two) in combinations(ranges, 2):
        if one != two or one == -1:
            assert b <= c or d <= a
    assert max(end for _, end, _ in ranges) <= program.arena_bytes
    assert program.arena_lower_bound_bytes <= program.arena_bytes
    assert [len(step.operands) for step in program.steps] == [len(step.operands) for step in planned.program.steps]
