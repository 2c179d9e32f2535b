"""assign_storage, checked by running graphs in one NumPy array laid out as it says."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import run
from mavcg.memory.storage import assign_storage
from tests.conftest import examples
from tests.mavcg.memory.arena_runs import run_in_arena


def random_graph(seed: int) -> Graph:
    """Nodes that move data and element-wise ones, over images of one size and a few channels."""
    pick = Random(seed)
    b = GraphBuilder("random")
    tensors = [b.input("x", TensorType("f32", (1, 4, 5, 3)))]
    if pick.random() < 0.3:
        tensors.append(b.input("y", TensorType("f32", (1, 4, 5, 3))))
    for _ in range(pick.randint(1, 10)):
        x = pick.choice(tensors[-4:])
        shape = b.types[x].shape
        kind = pick.choice(["relu", "add", "mul", "concat", "pad", "slice", "reshape", "pad", "concat", "neg"])
        if kind in ("relu", "neg"):
            made = b.add(kind, [x])
        elif kind in ("add", "mul"):
            mates = [t for t in tensors if b.types[t] == b.types[x]]
            made = b.add(kind, [x, pick.choice(mates)])
        elif kind == "concat":
            axis = pick.randrange(len(shape))
            mates = [t for t in tensors if _fits(b.types[t].shape, shape, axis)]
            made = b.add("concat", [pick.choice(mates) for _ in range(pick.randint(1, 3))], axis=axis)
        elif kind == "pad":
            before, after = ([pick.choice([0, 0, 1, 2]) for _ in shape] for _ in range(2))
            mode = pick.choice(["constant", "constant", "edge"])
            made = b.add("pad", [x], before=before, after=after, mode=mode, value=pick.choice([0.0, 1.5]))
        elif kind == "slice":
            starts = [pick.randrange(n) if pick.random() < 0.4 else 0 for n in shape]
            steps = [pick.choice([1, 1, 1, 2]) for _ in shape]
            made = b.add("slice", [x], starts=starts, stops=list(shape), steps=steps)
        else:
            made = b.add("reshape", [x], shape=_reshaped(pick, shape))
        tensors.append(made)
    outputs = [tensors[-1]] + [t for t in tensors if pick.random() < 0.15]
    return b.finish(outputs)


def _reshaped(pick: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    size = int(np.prod(shape))
    return pick.choice([(size,), (1, *shape), (*shape[:-2], int(np.prod(shape[-2:])))])


def _fits(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return len(a) == len(b) and all(x == y for i, (x, y) in enumerate(zip(a, b, strict=True)) if i != axis)


@settings(max_examples=examples(300, 13))
@given(st.integers(0, 10**9))
def test_the_same_results_in_shared_buffers(seed: int) -> None:
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    inputs = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    wanted = run(graph, *(inputs[name] for name in graph.inputs))
    for a, b in zip(run_in_arena(assign_storage(graph), inputs), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def parsed(body: str, types: str = "f32[1,4,4,8]") -> Graph:
    return Graph.parse(f"graph g {{\n  input %x: {types}\n{body}\n}}\n")


CONCAT = """  %a: f32[1,4,4,8] = relu(%x)
  %b: f32[1,4,4,8] = neg(%x)
  %c: f32[1,4,4,16] = concat(%a, %b) axis=3
  %p: f32[1,6,6,16] = pad(%c) after=[0, 1, 1, 0] before=[0, 1, 1, 0] mode="constant" value=0.0
  %r: f32[1,6,6,16] = sqrt(%p)
  return %r"""


def test_producers_write_into_the_padded_concat() -> None:
    storage = assign_storage(parsed(CONCAT))
    assert {n: storage.locations[n].root for n in "abc"} == dict.fromkeys("abc", "p")
    assert storage.locations["b"].offset == 8 + (6 + 1) * 16
    assert storage.locations["b"].view.strides == (6 * 6 * 16, 6 * 16, 16, 1)
    assert storage.silent == {"c"} and storage.bordered == {"p"}


def test_what_the_user_owns_is_copied() -> None:
    storage = assign_storage(parsed("  %c: f32[1,4,4,16] = concat(%x, %x) axis=3\n  return %c, %x"))
    ops = [node.op for node in storage.graph.nodes]
    assert ops.count("reshape") == 3  # both halves, and the input that is an output
    assert storage.graph.outputs[1] != "x"


def test_element_wise_in_place() -> None:
    storage = assign_storage(
        parsed(
            "  %a: f32[1,4,4,8] = relu(%x)\n  %b: f32[1,4,4,8] = neg(%a)\n  %c: f32[1,4,4,8] = add(%b, %x)\n"
            "  %d: f32[1,4,4,8] = mul(%c, %b)\n  return %d"
        )
    )
    assert storage.locations["b"].root == "a"
    assert storage.locations["c"].root == "c"  # b is read again
    assert storage.locations["d"].root == "d"  # the user's


@pytest.mark.parametrize("steps, view", [("[1, 1, 1, 1]", True), ("[1, 2, 2, 1]", True), ("[1, 1, 1, 2]", False)])
def test_slices_are_views_where_channels_stay_neighbours(steps: str, view: bool) -> None:
    shape = {"[1, 1, 1, 1]": "1,2,4,8", "[1, 2, 2, 1]": "1,1,2,8", "[1, 1, 1, 2]": "1,2,4,4"}[steps]
    storage = assign_storage(
        parsed(
            f"  %a: f32[1,4,4,8] = relu(%x)\n  %s: f32[{shape}] = slice(%a) starts=[0, 2, 0, 0] steps={steps} "
            f"stops=[1, 4, 4, 8]\n  %r: f32[{shape}] = neg(%s)\n  return %r"
        )
    )
    assert ("s" in storage.silent) == view
