"""A loop of the graph under construction by a handler (ops/loops.py): its rows, states and results."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import Value

LEAST_TRIPS = 8  # of a loop; fewer iterations are unrolled, without copies of states


@dataclass
class GraphLoop:
    """A loop of a number of iterations.

    number: of the loop in the graph. nexts: the next values of its states so far, without which it has no results.
    """

    call: NodeCall
    trips: int
    number: int
    states: list[Value] = field(default_factory=list)
    nexts: list[Value] = field(default_factory=list)

    def row(self, x: Value, reverse: bool = False) -> Value:
        """Return the row of x, [trips, ..], of an iteration. reverse: from the last one on."""
        return self.call.add("loop_slice", x, loop=self.number, reverse=reverse)

    def state(self, initial: Value, condition: bool = False) -> Value:
        """Return a new state in an iteration. condition: the loop ends once it is false."""
        made = self.call.add(
            "loop_state", initial, loop=self.number, number=len(self.states), trips=self.trips, condition=condition
        )
        self.states.append(made)
        return made

    def end(self, values: Sequence[Value]) -> None:
        """Give each state its next value, in the order of the states. Raises: MavcgError for one of another type."""
        pairs = zip(self.states, values, strict=True)
        self.nexts = [self.call.add("loop_next", state, value, loop=self.number) for state, value in pairs]

    def stack(self, x: Value, reverse: bool = False) -> Value:
        """Return the values of x of all iterations, [trips, *x.shape]. reverse: the first one is the last row."""
        return self.call.add("loop_stack", x, *self.nexts, loop=self.number, trips=self.trips, reverse=reverse)

    def final(self, number: int) -> Value:
        """Return a state after the loop. number: of the state."""
        others = (value for i, value in enumerate(self.nexts) if i != number)
        return self.call.add("loop_final", self.nexts[number], *others, loop=self.number)


def new_loop(call: NodeCall, trips: int) -> GraphLoop | None:
    """Return a loop of the graph for these iterations; None if they are to be unrolled."""
    emitter = call.emitter
    if not emitter.loops or trips < LEAST_TRIPS:
        return None
    emitter.loop_count += 1
    return GraphLoop(call, trips, emitter.loop_count - 1)
