"""States that keep their shape at all lengths, and those that grow from run to run, as a cache of tokens.

A state that grows has an axis that is a dimension of its own, such as past, and the axis of its next value is another
count, such as past + tokens. No caller tells the length of this dimension: the context holds it, and the next value's
length replaces it after each run.
"""

from collections.abc import Mapping

from mavcg.choose.lengths.samples import AxisCounts
from mavcg.errors import MavcgError
from mavcg.graph import Graph, GraphState
from mavcg.graph.counts import Count, Length, is_symbolic, lengths_in, text_of


def check_states(graph: Graph, axes: Mapping[str, AxisCounts]) -> None:
    """Raise MavcgError for a state whose next value has lengths that the next run cannot read, and for one with a
    dimension whose length nothing tells.

    axes: counts of the axes of the graph's tensors.
    """
    held = {state.input for state in graph.states}
    told = {name for x in graph.inputs if x not in held for count in axes[x] for name in lengths_in(count)}
    grown = dict[str, tuple[Count, GraphState]]()  # the next length of a dimension that grows
    for state in graph.states:
        read, written = axes[state.input], axes[state.output]
        for count, following in zip(read, written, strict=True):
            if count != following:
                name = _growing_dimension(state, read, written, count)
                other, first = grown.setdefault(name, (following, state))
                if other != following:
                    both = f"{text_of(following)} here and {text_of(other)} in {first.output}"
                    raise _refusal(state, f"{name} becomes {both}")
    for state in graph.states:
        lengths = {name for count in axes[state.input] for name in lengths_in(count)}
        for name in lengths & grown.keys():
            if axes[state.input] == axes[state.output]:
                raise _refusal(
                    state, f"it does not grow, and {grown[name][1].input} with the same dimension {name} does"
                )
        if alone := lengths - told - grown.keys():
            names = ", ".join(sorted(alone))
            reason = f"only states have the dimension {names}, so no run would tell its length"
            raise _refusal(state, reason, "give that axis one length, or leave the pair to the caller")


def _growing_dimension(state: GraphState, read: AxisCounts, written: AxisCounts, count: Count) -> str:
    """Return the dimension that an axis of a state is, if the context can hold its length. Raises: MavcgError."""
    if not isinstance(count, Length):
        raise _refusal(
            state,
            f"its shape is {_shape_text(read)} and becomes {_shape_text(written)}; an axis that grows is a dimension "
            "with a range of its own and no step, such as 0..512, and others are kept at all lengths",
        )
    if sum(map(is_symbolic, (*read, *written))) > 2:
        raise _refusal(
            state,
            f"its shape {_shape_text(read)} has another dimension than {count.name}, which grows",
            "give that axis one length, or leave the pair to the caller",
        )
    return count.name


def _refusal(state: GraphState, reason: str, remedy: str = "leave the pair to the caller") -> MavcgError:
    return MavcgError(f"--state {state.input}={state.output}: {reason}; {remedy}")


def _shape_text(axes: AxisCounts) -> str:
    """Return the shape of a tensor by its lengths, such as [2, batch, 16]."""
    return f"[{', '.join(text_of(axis) for axis in axes)}]"
