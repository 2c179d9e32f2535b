"""8-bit primitives: every bit of each as the definition has it, whatever the window, groups, batch and channels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.algorithms.costs.eight_bit import typical_weights
from mavcg.choose.algorithms.costs.rows import text_of, what_of
from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.kernels.primitives.eight_bit import DEFAULTS, node_graph
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives, find_primitive
from mavcg.lab.trials.jobs import TrialJob, memory, random_ranges
from mavcg.lab.trials.run import find_machine, run_jobs
from mavcg.specs.primitive import AxisWindow, Epilogue, Layout, Scenario
from tests.conftest import examples
from tests.kernels.primitives.conftest import host_block

EDGES = (
    Scenario(3, 13, 11, 2, 7, 10, dtype="u8"),
    Scenario(8, 9, 9, 1, 3, 12, groups=2, batch=2, dtype="i8"),
    Scenario(5, 9, 12, 1, 3, 20, dilation=2, across=AxisWindow(3, 1, 0, 3), dtype="i8"),
    Scenario(6, 5, 13, 1, 1, 9, across=AxisWindow(7), batch=2, dtype="u8"),
    Scenario(20, 8, 8, 2, 1, 33, dtype="u8"),
    Scenario(17, 5, 6, 1, 1, 16, dtype="i8"),
    Scenario(1, 3, 3, 1, 1, 2, across=AxisWindow(2), dtype="u8"),
    Scenario(19, 7, 9, 2, 3, 19, groups=19, batch=2, dtype="i8"),
)
FAST = (0, 1, 5, 6, 7)  # without dilation and 1x7, which take longest to compile


def assert_same_bits(scenario: Scenario, seed: int) -> Array:
    """Hold every primitive that applies, its rows cut at random, against the definition; return its numbers."""
    machine, block = find_machine("host"), host_block()
    weights = typical_weights(scenario)
    graph = node_graph(scenario, weights)
    kind = graph.types[graph.inputs[0]]
    rng = np.random.default_rng(seed)
    x = rng.integers(*((-128, 128) if kind.dtype == "i8" else (0, 256)), kind.shape).astype(
        np.int8 if kind.dtype == "i8" else np.uint8
    )
    (expected,) = run(graph, x)
    able = [primitive for primitive in eight_bit_primitives() if primitive.applies(scenario)]
    jobs, outputs = [], []
    for primitive in able:
        lowering = primitive.lower(scenario, weights, Epilogue(bias=True), block)
        assert lowering.workspace_bytes == primitive.workspace_bytes(scenario)
        outputs.append(memory(expected.size))
        operands = {
            "x": memory(x.size, x),
            "weights": memory(lowering.weights_bytes, lowering.weights),
            "out": outputs[-1],
            "workspace": memory(lowering.workspace_bytes),
        }
        jobs.append(TrialJob(lowering, operands, random_ranges(lowering, seed)))
    run_jobs(jobs, machine, optimised=False)

    assert [primitive.name for primitive in able if primitive.name in DEFAULTS] == [able[0].name]
    for primitive, job, out in zip(able, jobs, outputs, strict=True):
        assert np.array_equal(out.inner.view(expected.dtype), expected.reshape(-1)), (primitive.name, scenario)
        assert all(operand.guards_hold for operand in job.operands.values())
    return expected


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, id=s.text, marks=[] if n in FAST else [pytest.mark.long]) for n, s in enumerate(EDGES)],
)
def test_every_bit_is_the_definitions(scenario: Scenario) -> None:
    assert np.unique(assert_same_bits(scenario, 3)).size > 1


WINDOWS = st.builds(AxisWindow, st.integers(1, 5), st.integers(1, 3), st.just(0), st.integers(1, 3))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Scenarios with channels around vectors and blocks, windows of their own along each axis, groups and batches."""
    down, along = draw(WINDOWS), draw(WINDOWS)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    c, m = (groups * draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33])) for _ in range(2))
    h, w = (window.dilation * (window.k - 1) + 1 + draw(st.integers(0, 9)) for window in (down, along))
    return Scenario(
        c,
        h,
        w,
        down.stride,
        down.k,
        m,
        0,
        groups,
        down.dilation,
        across=along,
        batch=draw(st.integers(1, 3)),
        dtype=draw(st.sampled_from(["i8", "u8"])),
    )


@pytest.mark.long
@settings(max_examples=examples(60, 15))
@given(scenarios(), st.integers(0, 1 << 20))
def test_drawn_scenarios(scenario: Scenario, seed: int) -> None:
    assert_same_bits(scenario, seed)


def test_the_registry_keeps_both_kinds_apart() -> None:
    names = [primitive.name for primitive in eight_bit_primitives()]
    assert len(set(names)) == len(names) and not set(names) & {primitive.name for primitive in all_primitives()}
    for scenario in EDGES:
        assert not any(primitive.applies(scenario) for primitive in all_primitives())
    for primitive in eight_bit_primitives():
        assert find_primitive(primitive.name) == primitive
        assert (primitive.layout_in, primitive.layout_out) == (Layout.HWC, Layout.HWC) and primitive.error_bound == 0
        assert not primitive.applies(Scenario(8, 9, 9, 1, 3, 8))
        assert not primitive.applies(Scenario(8, 9, 9, 1, 3, 8, 1, dtype="i8"))  # whose border is another step


def test_the_database_keeps_the_kind_of_numbers() -> None:
    scenario = EDGES[1]
    assert what_of(text_of((scenario, "p"))) == (scenario, "p") and '"dtype":"i8"' in text_of((scenario, "p"))
    assert "dtype" not in text_of((Scenario(8, 9, 9, 1, 3, 8), "p"))
    with pytest.raises(ValueError, match="i9"):
        what_of(text_of((scenario, "p")).replace("i8", "i9"))
