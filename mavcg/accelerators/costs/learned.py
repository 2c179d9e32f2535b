"""Predict costs of groups by a small model that is fitted to simulated costs, as in section IV-D of DNNVM.

The model is ridge regression on the logarithm of simulated over modelled cycles. Its features are the figures that the
analytic model has for a group, with their logarithms and products. Every node by itself and some of the other groups
are simulated; the model predicts the rest. Its error on unseen groups is estimated by leaving out each simulated group
in turn, for which ridge regression has a closed form (Hastie, Tibshirani and Friedman, "The Elements of Statistical
Learning", 7.10).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mavcg.accelerators.costs.kept import GroupKeys
from mavcg.accelerators.fusion.costs import GroupCost, GroupCosts, ModelledGroupCosts
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.graph import Array

LEAST_SAMPLE, SHARE = 32, 4  # one in SHARE groups of several nodes is simulated, or more to have LEAST_SAMPLE
PENALTIES = tuple(10.0**power for power in range(-4, 4))


@dataclass(frozen=True)
class RidgeModel:
    """A linear model of standardised features.

    error: mean of |prediction / truth - 1| over the samples, each predicted without itself (leave-one-out).
    """

    mean: Array
    scale: Array
    weights: Array
    offset: float
    error: float

    def predict(self, features: Array) -> Array:
        """Return predictions [n] of features [n, f]."""
        return np.asarray((features - self.mean) / self.scale @ self.weights + self.offset)


def fit_ridge(features: Array, targets: Array) -> RidgeModel:
    """Fit targets [n], which are logarithms of ratios, to features [n, f].

    The penalty is the one with the least leave-one-out error.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    x, offset = (features - mean) / scale, float(targets.mean())
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    best: tuple[float, Array] | None = None
    for penalty in PENALTIES:
        shrunk = s**2 / (s**2 + penalty * len(x))
        residual = (targets - offset) - u @ (shrunk * (u.T @ (targets - offset)))
        # The term 1 / n is for the mean, which is fitted too.
        left_out = residual / np.maximum(1 - (u**2 @ shrunk) - 1 / len(x), 1e-9)
        error = float(np.mean(np.abs(np.expm1(np.clip(-left_out, -20, 20)))))
        if best is None or error < best[0]:
            best = error, vt.T @ (s / (s**2 + penalty * len(x)) * (u.T @ (targets - offset)))
    assert best is not None
    return RidgeModel(mean, scale, best[1], offset, best[0])


@dataclass
class LearnedGroupCosts:
    """A provider that has the costs of some groups from `exact` (simulated costs) and predicts the others.

    exact_groups, predicted_groups: numbers of different groups. models: the model of each `prepare` that had to
    predict.
    """

    target: IsaTarget
    exact: GroupCosts
    exact_groups: int = 0
    predicted_groups: int = 0
    models: list[RidgeModel] = field(default_factory=list)
    _modelled: ModelledGroupCosts = field(init=False)
    _predicted: dict[object, GroupCost] = field(default_factory=dict)
    _keys: GroupKeys = field(default_factory=GroupKeys)
    _known: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._modelled = ModelledGroupCosts(self.target)

    def prepare(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> None:
        """Simulate some of these groups, fit the model to them, and predict the others."""
        unlike: dict[object, Sequence[str]] = {}
        for nodes in groups:
            key = self._keys.key(graph, nodes)
            if key not in self._known and key not in self._predicted:
                unlike.setdefault(key, nodes)
        features = {key: self._features(graph, nodes) for key, nodes in unlike.items()}
        predictable = [key for key, nodes in unlike.items() if len(nodes) > 1 and features[key] is not None]
        predictable.sort(key=lambda key: self._cycles(graph, unlike[key]))
        step = max(1, min(SHARE, len(predictable) // LEAST_SAMPLE))
        predicted = [key for at, key in enumerate(predictable) if at % step]
        simulated = [key for key in unlike if key not in set(predicted)]
        self.exact.prepare(graph, [unlike[key] for key in simulated], progress)
        self._known.update(simulated)
        self.exact_groups += len(simulated)
        if not predicted:
            return
        samples = [
            (features[key], np.log(cost.cost / self._cycles(graph, unlike[key])))
            for key in simulated
            if features[key] is not None and (cost := self.exact.cost(graph, unlike[key])) is not None
        ]
        model = fit_ridge(np.stack([f for f, _ in samples if f is not None]), np.array([y for _, y in samples]))
        self.models.append(model)
        self.predicted_groups += len(predicted)
        ratios = np.exp(model.predict(np.stack([f for key in predicted if (f := features[key]) is not None])))
        for unknown, ratio in zip(predicted, ratios, strict=True):
            tile_and_work = self._modelled.work(graph, unlike[unknown])
            assert tile_and_work is not None  # groups with features have a modelled cost
            self._predicted[unknown] = GroupCost(float(tile_and_work[1].cycles(self.target) * ratio), tile_and_work[0])

    def cost(self, graph: XGraph, nodes: Sequence[str]) -> GroupCost | None:
        """Return the exact cost, or the predicted one with the analytic model's tile; None if it does not fit."""
        predicted = self._predicted.get(self._keys.key(graph, nodes))
        return self.exact.cost(graph, nodes) if predicted is None else predicted

    def is_predicted(self, graph: XGraph, nodes: Sequence[str]) -> bool:
        """Return True if the cost of a group is predicted."""
        return self._keys.key(graph, nodes) in self._predicted

    def make_exact(self, graph: XGraph, groups: Sequence[Sequence[str]], progress: Callable[[str], None]) -> int:
        """Replace the predicted costs of these groups by exact ones, and return their number."""
        keys: dict[object, Sequence[str]] = {self._keys.key(graph, nodes): nodes for nodes in groups}
        lacking = [key for key in keys if key in self._predicted]
        self.exact.prepare(graph, [keys[key] for key in lacking], progress)
        for key in lacking:
            del self._predicted[key]
            self._known.add(key)
        self.exact_groups += len(lacking)
        self.predicted_groups -= len(lacking)
        return len(lacking)

    def _cycles(self, graph: XGraph, nodes: Sequence[str]) -> float:
        tile_and_work = self._modelled.work(graph, nodes)
        assert tile_and_work is not None
        return tile_and_work[1].cycles(self.target)

    def _features(self, graph: XGraph, nodes: Sequence[str]) -> Array | None:
        """Return the features of a group; None if the analytic model cannot model it."""
        tile_and_work = self._modelled.work(graph, nodes)
        if tile_and_work is None or tile_and_work[1].cycles(self.target) <= 0:
            return None
        tile, work = tile_and_work
        rate, cycles = self.target.port_bytes_per_cycle, work.cycles(self.target)
        shares = [
            value / cycles
            for value in (
                work.conv_cycles,
                work.pool_cycles,
                work.misc_cycles,
                work.load_bytes / rate,
                work.save_bytes / rate,
                work.weight_bytes / rate,
                work.first_bytes / rate,
                work.last_bytes / rate,
            )
        ]
        sizes = [np.log(cycles), np.log1p(work.tiles), np.log(tile.rows), np.log(tile.columns), np.log(tile.out_ch)]
        kinds = {node.name: node.kind for node in graph.nodes}
        counts = [
            len(nodes),
            *(
                sum(kinds[name] == kind for name in nodes)
                for kind in ("conv", "depthwise", "max_pool", "eltwise", "concat")
            ),
        ]
        first = np.array([*shares, *sizes, *counts, float(tile.whole)], np.float64)
        some = first[: len(shares) + 2]
        return np.concatenate([first, np.outer(some, some)[np.triu_indices(len(some))]])
