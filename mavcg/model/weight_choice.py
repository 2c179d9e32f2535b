"""The choice of the layers whose weights lie in memory as f16, bf16 or i8, within a limit on the measured error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.choose.predict.stored_weights import saved_weight_bytes
from mavcg.graph import Graph
from mavcg.model.precision_error import ExactRun, MeasuredError, measure_error
from mavcg.passes.graph.stored_weights import with_stored_weights

STORED_TYPES = ("f16", "bf16")
SKIPPED = 3  # layers that are left out while later ones are tried, at most: each costs more measurements


@dataclass(frozen=True)
class StoredChoice:
    """A graph with stored weights, and its error. outputs: of the nodes that have them, the largest gain first."""

    graph: Graph
    error: MeasuredError
    outputs: tuple[str, ...] = ()

    def as_json(self, stored: str) -> dict[str, object]:
        """Return what a build's document says of the weights, and of the error if it is theirs. stored: their type."""
        nodes = self.graph.producers()
        chosen = [nodes[name] for name in self.outputs]
        by_weights = {node.inputs[1]: node for node in chosen}
        saved = sum(saved_weight_bytes(node, self.graph, stored) for node in by_weights.values())
        return {"type": stored, "layers": [node.origin or node.output for node in chosen], "saved_bytes": saved}


def choose_stored_weights(
    graph: Graph,
    error: MeasuredError,
    stored: str,
    gains: Mapping[str, float],
    limit: float | None,
    runs: Sequence[ExactRun],
) -> StoredChoice:
    """Store the weights of the layers that gain time by it, as many as keep the limit, those that gain most first.

    A layer with which the error would exceed the limit is left out, and those after it are tried, SKIPPED times.

    graph: whose layers of `gains` compute in f32. error: of this graph; None as long as it is the model's own. gains:
    in ms, or in bytes, by a node's output. limit: of the measured error; None: all layers. runs: exact_runs of the
    model. Where there are none, so that no error can be measured, and there is a limit, no weights are stored.
    """
    best = StoredChoice(graph, error)
    if limit is not None and not runs:
        return best
    left = sorted(gains, key=lambda name: -gains[name])
    for _ in range(1 + SKIPPED):
        best, added = _with_first(graph, best, left, stored, limit, runs)
        left = left[added + 1 :]
        if not left:
            break
    return best


def _with_first(
    graph: Graph, chosen: StoredChoice, left: Sequence[str], stored: str, limit: float | None, runs: Sequence[ExactRun]
) -> tuple[StoredChoice, int]:
    """Return a choice with as many of the first layers that are left as keep the limit, and their number."""
    best = chosen
    keeps, exceeds = 0, len(left) + 1
    tried = len(left)
    while exceeds - keeps > 1:  # `keeps` layers keep the limit, `exceeds` are too many
        outputs = (*chosen.outputs, *left[:tried])
        changed = with_stored_weights(graph, outputs, stored)
        choice = StoredChoice(changed, measure_error(changed, runs), outputs)
        if limit is None or (choice.error.relative is not None and choice.error.relative <= limit):
            best, keeps = choice, tried
        else:
            exceeds = tried
        tried = (keeps + exceeds) // 2
    return best, keeps
