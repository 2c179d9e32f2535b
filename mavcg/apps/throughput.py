"""Modelled throughput of an application's CNNs, by the prediction of its models on a board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.application import Application, Cnn
from mavcg.apps.derivation import LayerId
from mavcg.hardware.cost_fit import StepFit


@dataclass(frozen=True)
class LayerTime:
    """Predicted time of a layer.

    ms: of the whole layer on one core, by cluster. tasks: kernel calls that it takes anyway. phase_ms: cost of each
    further phase, by cluster: its start, and a read of its weights.
    """

    ms: tuple[float, ...]
    tasks: int
    phase_ms: tuple[float, ...]

    def by_phases(self, phases: int, cluster: int) -> float:
        """Return the time of the layer in this many phases, in ms."""
        return self.ms[cluster] + max(0, phases - max(1, self.tasks)) * self.phase_ms[cluster]


Times = Mapping[LayerId, LayerTime]
NO_TIME = LayerTime((), 1, ())


def phase_cost_ms(
    weight_bytes: int, level_bytes: Sequence[int], level_gb_per_s: Sequence[float], ghz: float, fit: StepFit
) -> float:
    """Return the time of one more phase of a layer, in ms: cycles of a step and a call, and a read of the weights.

    level_bytes, level_gb_per_s: size of each memory level, and the bandwidth behind it. Weights that do not fit a level
    come from behind it; nothing overlaps. fit: of the core's kind.
    """
    start_ns = (fit.step_cycles + fit.call_cycles) / ghz
    behind = [rate for size, rate in zip(level_bytes, level_gb_per_s, strict=True) if weight_bytes > size]
    return (start_ns + (weight_bytes / min(behind) if behind else 0.0)) / 1e6


def throughputs(app: Application, phases: Mapping[LayerId, int], times: Times) -> dict[str, float]:
    """Return the frames per second of each CNN while it runs.

    A CNN in one partition runs on the fastest cluster, cluster 0. Parallel partitions run on one cluster each, in
    order, the last ones sharing the last cluster; the times of other partitions add up.
    """
    fps = {}
    for cnn in app.cnns:
        parts, stages = app.partitions_of(cnn.name), list[float]()
        clusters = max((len(time.ms) for time in times.values()), default=1) or 1
        for number, part in enumerate(parts):
            own = any(app.runs_with(part.name, partition.name) for partition in parts if partition != part)
            cluster = min(number, clusters - 1) if own else 0
            ids = [(cnn.name, layer) for layer in part.layers]
            stages.append(sum(times[i].by_phases(phases[i], cluster) for i in ids if i in times and times[i].ms))
        pipelined = all(app.runs_with(a.name, b.name) for a in parts for b in parts if a != b) and len(parts) > 1
        ms = max(stages) if pipelined else sum(stages)
        fps[cnn.name] = 1e3 / ms if ms else float("inf")
    return fps


def balanced_cuts(cnn: Cnn, times: Times, count: int) -> list[int]:
    """Return the cuts of a CNN's layers into `count` partitions, one per cluster, that make the slowest one fastest.

    The result has the number of the first layer of each partition after the first. It is exact, by dynamic programming
    over prefixes.
    """
    layers = [times.get((cnn.name, layer.name), NO_TIME) for layer in cnn.layers]
    clusters = max((len(time.ms) for time in layers), default=1) or 1
    count = min(count, len(layers))
    sums = []
    for stage in range(count):
        cluster = min(stage, clusters - 1)
        sums.append([0.0])
        for time in layers:
            sums[-1].append(sums[-1][-1] + (time.ms[cluster] if time.ms else 0.0))
    best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    for stage in range(count):
        for end in range(stage + 1, len(layers) + 1):
            options = [
                (max(best[(stage, cut)][0], sums[stage][end] - sums[stage][cut]), (*best[(stage, cut)][1], cut))
                for cut in range(stage, end)
                if (stage, cut) in best
            ]
            if options:
                best[(stage + 1, end)] = min(options)
    return list(best[(count, len(layers))][1][1:])
