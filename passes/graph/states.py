"""Pairs inputs and outputs of a graph as states, by patterns such as past_*=present_*."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mavcg.errors import MavcgError, OptionError
from mavcg.graph import Graph, GraphState, TensorType

# Names that exporters give to the caches of decoders.
_USUAL = ("past_key_values.*=present.*", "past_key_values.*=present_key_values.*", "past*=present*")


def pair_states(graph: Graph, patterns: Sequence[str], any_length: bool = False) -> Graph:
    """Return the graph with an input and an output as a state for each pair of names that the patterns match.

    Before, with past_*=present_*:
        input %past_key: f32[1,8]
        %present_key: f32[1,8] = add(%past_key, %past_key)
        return %present_key
    After:
        input %past_key: f32[1,8]
        state %past_key = %present_key
        %present_key: f32[1,8] = add(%past_key, %past_key)
        return %present_key

    patterns: INPUT=OUTPUT, in which each * of INPUT stands for any text, and the same * of OUTPUT for the same text.
    any_length: the graph is one of several of a model, and an output may be longer than its input. Raises: OptionError
    for a pattern that matches nothing, for an output that is missing, of another type, or part of another state, and
    where no output would be left for the caller.
    """
    states = list(graph.states)
    for pattern in patterns:
        option = f"--state {pattern}"
        pairs = list(_pairs(graph.inputs, pattern, option))
        if not pairs:
            listed = ", ".join(graph.inputs) or "none"
            raise OptionError(f"{option}: no input has such a name; inputs are {listed}")
        for name, output in pairs:
            where = f"{option}: input {name} ({graph.types[name]})"
            if output not in graph.outputs:
                raise OptionError(f"{where} has no output {output}; outputs are {', '.join(graph.outputs)}")
            if not _fits(graph.types[name], graph.types[output], any_length):
                raise OptionError(
                    f"{where} and output {output} ({graph.types[output]}): a state has one type and shape; choose the "
                    "lengths of free dimensions by --shape, with a range such as 0..512 for those of a cache that "
                    "grows, or leave this pair to the caller"
                )
            if any(name == state.input or output == state.output for state in states):
                raise OptionError(f"{where} and output {output}: one of them is a state already; name each pair once")
            states.append(GraphState(name, output))
    if len(states) == len(graph.outputs):
        raise OptionError(
            f"--state {patterns[-1]}: no output is left for the caller; leave one of {', '.join(graph.outputs)} out"
            if patterns
            else "every output is a state; nothing would be returned to the caller"
        )
    return replace(graph, states=tuple(states))


def _fits(read: TensorType, written: TensorType, any_length: bool) -> bool:
    """Return True if a tensor of the second type may be the next value of a state of the first."""
    if any_length:
        return (read.dtype, len(read.shape)) == (written.dtype, len(written.shape))
    return read == written


def without_states(graph: Graph, where: str) -> Graph:
    """Return the graph. where: what takes no states, and why. Raises: MavcgError for a graph with states."""
    if graph.states:
        listed = ", ".join(state.input for state in graph.states)
        raise MavcgError(f"{where}; the model keeps {listed} from run to run: build it alone, by `mavcg build MODEL`")
    return graph


def without_counts(graph: Graph, where: str) -> Graph:
    """Return the graph. where: what takes outputs of fixed shapes only, and why. Raises: MavcgError for others."""
    if graph.counts:
        listed = ", ".join(count.output for count in graph.counts)
        raise MavcgError(f"{where}; each run decides the length of {listed}: build it alone, by `mavcg build MODEL`")
    return graph


def proposed_states(graph: Graph) -> str:
    """Return the pattern that pairs inputs and outputs with the usual names of caches; "" if it matches none.

    A pair of different types, such as a cache that grows, is none.
    """
    for pattern in () if graph.states else _USUAL:
        pairs = list(_pairs(graph.inputs, pattern, ""))
        if pairs and all(
            output in graph.outputs and graph.types[output] == graph.types[name] for name, output in pairs
        ):
            return pattern if len(pairs) < len(graph.outputs) else ""
    return ""


def _pairs(inputs: Sequence[str], pattern: str, option: str) -> Iterator[tuple[str, str]]:
    """Yield the names of each input that a pattern matches, and of its output. Raises: MavcgError for another form."""
    name, equals, output = pattern.partition("=")
    if not name or not output or not equals or name.count("*") != output.count("*"):
        raise OptionError(
            f"{option}: write INPUT=OUTPUT, with as many * on both sides, as in --state past_key=present_key or "
            "--state 'past_*=present_*'"
        )
    match_input = re.compile("(.*)".join(map(re.escape, name.split("*"))), re.DOTALL)
    parts = output.split("*")
    for candidate in inputs:
        match = match_input.fullmatch(candidate)
        if match is not None:
            texts = (*match.groups(), "")
            yield candidate, "".join(part + text for part, text in zip(parts, texts, strict=True))
