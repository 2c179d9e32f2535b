"""Random graphs with loops."""

from random import Random

import numpy as np

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.nodes import verify

KIND = TensorType("f32", (2, 3))
WEIGHTS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def computed(pick: Random, b: GraphBuilder, tensors: list[str]) -> str:
    """Add a node of KIND that reads some of these."""
    x, other = pick.choice(tensors[-5:]), pick.choice(tensors)
    kind = pick.choice(["neg", "tanh", "add", "mul", "roll", "reshape", "weights"])
    if kind in ("neg", "tanh"):
        return b.add(kind, [x])
    if kind in ("add", "mul"):
        return b.add(kind, [x, other])
    if kind == "weights":
        return b.add("add", [x, b.constant(WEIGHTS)])
    if kind == "reshape":
        return b.add("reshape", [b.add("reshape", [x], shape=[3, 2])], shape=[2, 3])
    tail = b.add("slice", [x], starts=[1, 0], stops=[2, 3], steps=[1, 1])
    head = b.add("slice", [other], starts=[0, 0], stops=[1, 3], steps=[1, 1])
    return b.add("concat", [tail, head], axis=0)


def below(pick: Random, b: GraphBuilder, tensors: list[str]) -> str:
    """Add a condition on one of these."""
    total = b.add("reduce_sum", [pick.choice(tensors)], axes=[0, 1], keepdims=False)
    return b.add("less", [total, b.constant(np.float32(pick.uniform(-2, 4)))])


def random_loop(pick: Random, b: GraphBuilder, around: list[str], rows: str = "", within: int = -1) -> list[str]:
    """Add a loop whose next states may be states, rows, or values of the graph around it; return its results.

    rows: [trips, 2, 3] or [trips, n, 2, 3], of which each iteration reads a part; "": a new input. within: number of
    the loop in whose body this one is. A condition may end it, if nothing is stacked.
    """
    loop = sum(node.op == "loop_state" and node.attr("number") == 0 for node in b.nodes)
    place = {"loop": loop, "within": within}
    deep = within < 0 and pick.random() < 0.4
    if not rows:
        rows = b.input(
            f"x{loop}", TensorType("f32", (pick.randint(1, 4), *([pick.randint(1, 3)] if deep else []), 2, 3))
        )
    trips, reverse = b.types[rows].shape[0], pick.random() < 0.5
    states = [
        b.add("loop_state", [pick.choice(around)], **place, number=number, trips=trips)
        for number in range(pick.randint(1, 3))
    ]
    part = b.add("loop_slice", [rows], **place, reverse=reverse)
    inside = list(states)
    stacked: list[str] = []
    if b.types[part] == KIND:
        inside.append(part)
    elif pick.random() < 0.3:
        stacked.append(part)
    if pick.random() < 0.3:
        known = b.constant(np.arange(trips * 6, dtype=np.float32).reshape(trips, 2, 3))
        inside.append(b.add("loop_slice", [known], **place))
    for _ in range(pick.randint(0, 6)):
        inside.append(computed(pick, b, [*inside, pick.choice(around)]))
    if b.types[part] != KIND or (within < 1 and pick.random() < 0.3):
        results = random_loop(pick, b, [*around, *inside], part if b.types[part] != KIND else "", loop)
        inside += [name for name in results if b.types[name] == KIND]
        stacked += [name for name in results if b.types[name] != KIND and pick.random() < 0.6]
        inside.append(computed(pick, b, inside))
    ends = pick.random() < 0.2
    condition = (
        b.add("loop_state", [below(pick, b, around)], **place, number=3, trips=trips, condition=True) if ends else ""
    )
    nexts = [b.add("loop_next", [state, pick.choice([*inside[-4:], around[-1]])], loop=loop) for state in states]
    if ends:
        nexts.append(b.add("loop_next", [condition, below(pick, b, inside)], loop=loop))
    finals = nexts[: len(states)]
    results = [b.add("loop_final", [n, *(m for m in nexts if m != n)], loop=loop) for n in finals]
    stacked += pick.sample(inside, min(len(inside), pick.randint(0, 2)))
    for value in [] if ends else stacked:
        stack = b.add("loop_stack", [value, *nexts], **place, trips=trips, reverse=pick.random() < 0.5)
        results.append(stack)
        if b.types[value] == KIND:
            last = b.add("slice", [stack], starts=[trips - 1, 0, 0], stops=[trips, 2, 3], steps=[1, 1, 1])
            results.append(b.add("reshape", [last], shape=[2, 3]))
    return results


def random_loops(seed: int) -> Graph:
    pick, b = Random(seed), GraphBuilder("random")
    around = [b.input("a", KIND), b.input("b", KIND), b.constant(WEIGHTS)]
    outputs: list[str] = []
    for _ in range(pick.randint(1, 2)):
        for _ in range(pick.randint(0, 2)):
            around.append(computed(pick, b, around))
        results = random_loop(pick, b, around)
        outputs += [name for name in results if pick.random() < 0.5]
        around += [name for name in results if b.types[name] == KIND]
    outputs.append(computed(pick, b, around))
    graph = b.finish(list(dict.fromkeys(outputs)))
    verify(graph)
    return graph
