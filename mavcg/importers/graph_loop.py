"""A loop of the graph under construction by a handler (graph/ops/loops.py): its rows, states and results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.loops import OUTSIDE
from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import OpenLoop
from mavcg.importers.value import Value, constant


@dataclass
class GraphLoop:
    """A loop of a number of iterations.

    number: of the loop in the graph. within: of the loop around it, or OUTSIDE. nexts: the next values of its states so
    far, without which it has no results.
    """

    call: NodeCall
    trips: int
    number: int
    within: int
    states: list[Value] = field(default_factory=list)
    nexts: list[Value] = field(default_factory=list)

    @contextmanager
    def open(self, enter: bool = False) -> Iterator[None]:
        """Add nodes to the body. enter: what they read is in the body, so that they are computed only if it runs."""
        loops = self.call.emitter.open_loops
        loops.append(OpenLoop(self.number, self.within, enter))
        try:
            yield
        finally:
            closed = loops.pop()
            if loops:
                loops[-1].own |= closed.own

    def row(self, x: Value, reverse: bool = False) -> Value:
        """Return the row of x, [trips, ..], of an iteration. reverse: from the last one on."""
        return self.call.add("loop_slice", x, loop=self.number, within=self.within, reverse=reverse)

    def state(self, initial: Value, condition: bool = False) -> Value:
        """Return a new state in an iteration. condition: the loop ends once it is false."""
        place = {"loop": self.number, "within": self.within, "number": len(self.states)}
        made = self.call.add("loop_state", initial, **place, trips=self.trips, condition=condition)
        self.states.append(made)
        return made

    def end(self, values: Sequence[Value]) -> None:
        """Give each state its next value, in the order of the states. Raises: MavcgError for one of another type."""
        pairs = zip(self.states, values, strict=True)
        self.nexts = [self.call.add("loop_next", state, value, loop=self.number) for state, value in pairs]

    def stack(self, x: Value, reverse: bool = False) -> Value:
        """Return the values of x of all iterations, [trips, *x.shape]. reverse: the first one is the last row."""
        place = {"loop": self.number, "within": self.within}
        return self.call.add("loop_stack", x, *self.nexts, **place, trips=self.trips, reverse=reverse)

    def final(self, number: int) -> Value:
        """Return a state after the loop. number: of the state."""
        others = (value for i, value in enumerate(self.nexts) if i != number)
        return self.call.add("loop_final", self.nexts[number], *others, loop=self.number)


def new_loop(call: NodeCall, trips: int) -> GraphLoop | None:
    """Return a loop of the graph for these iterations; None if they are to be unrolled."""
    return begin_loop(call, trips) if call.emitter.loops and trips >= call.emitter.least_trips else None


def begin_loop(call: NodeCall, trips: int) -> GraphLoop:
    """Return a loop of the graph of so many iterations at most."""
    emitter = call.emitter
    emitter.loop_count += 1
    around = emitter.open_loops[-1].number if emitter.open_loops else OUTSIDE
    return GraphLoop(call, trips, emitter.loop_count - 1, around)


def conditional_branches(
    call: NodeCall, condition: Value, branches: Sequence[Callable[[], Sequence[Value]]]
) -> list[Value] | None:
    """Return the results of a branch that a run decides: those of the first one if the condition holds, else of the
    second. They are two loops of at most one iteration: one runs if the condition holds, the other if it does not.

    branches: import their nodes, and return their results. Returns None where loops are unrolled. Raises: UnsupportedOp
    for branches whose results differ in type.
    """
    if not call.emitter.loops:
        return None
    holds = call.reshape(condition, ())
    results: list[Value] = []
    for number, run in enumerate(branches):
        loop = begin_loop(call, 1)
        go = loop.state(call.add("not", holds) if number else holds, condition=True)
        with loop.open(enter=True):
            values = run()
        before = results or [constant(np.zeros(value.shape, DTYPES[value.dtype])) for value in values]
        if [value.type for value in values] != [value.type for value in before]:
            types = (", ".join(str(value.type) for value in made) for made in (before, values))
            raise call.unsupported(f"branches with the results {' and '.join(types)}", "results of the same types")
        for value in before:
            loop.state(value)
        loop.end([go, *values])
        results = [loop.final(1 + i) for i in range(len(values))]
    return results
