"""Accuracy against predicted time: models with more and more of their layers in 8 bits, and the choice among them."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError

MAX_ERROR = 0.1


@dataclass(frozen=True)
class LayerJudgement:
    """A layer's predicted times in f32 and in 8 bits, in ms, and its error in 8 bits; None: 8 bits are not possible."""

    name: str
    op: str
    f32_ms: float
    int8_ms: float
    error: float | None

    @property
    def gain_ms(self) -> float:
        """Time that 8 bits save, without the conversions at the borders to f32."""
        return self.f32_ms - self.int8_ms

    @property
    def pays(self) -> bool:
        """True if the layer is predicted to be faster in 8 bits."""
        return self.error is not None and self.gain_ms > 0


@dataclass(frozen=True)
class Point:
    """A model with these layers in 8 bits: its predicted time in ms, conversions included, and its measured error."""

    layers: tuple[str, ...]
    ms: float
    error: float


def best_first(layers: Sequence[LayerJudgement]) -> list[str]:
    """Return the layers that pay by the error for a saved ms, the least first."""
    paying = [layer for layer in layers if layer.pays]
    return [
        layer.name for layer in sorted(paying, key=lambda layer: ((layer.error or 0.0) / layer.gain_ms, layer.name))
    ]


def mixtures(layers: Sequence[LayerJudgement], count: int) -> list[tuple[str, ...]]:
    """Return sets of layers to measure: none, `count` between, all that pay, and all that can be in 8 bits.

    Half of those between have the best layers of the whole gain's next equal part. The others, which have fewer borders
    between 8 bits and f32, have all layers but those with the largest errors, by equal parts of their number. Equal
    sets occur once.
    """
    order, gains = best_first(layers), {layer.name: layer.gain_ms for layer in layers}
    possible = sorted((layer for layer in layers if layer.error is not None), key=lambda layer: layer.error or 0.0)
    sets: list[Collection[str]] = [(), order, [layer.name for layer in possible]]
    growing, shrinking = count - count // 2, count // 2
    for part in range(1, growing + 1):
        saved, taken = 0.0, list[str]()
        for name in order:
            if saved >= sum(gains[name] for name in order) * part / (growing + 1):
                break
            saved += gains[name]
            taken.append(name)
        sets.append(taken)
    for part in range(1, shrinking + 1):
        kept = math.ceil(len(possible) * part / (shrinking + 1))
        sets.append([layer.name for layer in possible[:kept]])
    return list(dict.fromkeys(tuple(layer.name for layer in layers if layer.name in chosen) for chosen in sets))


def measure_points(
    sets: Sequence[tuple[str, ...]],
    measure: Callable[[tuple[str, ...]], tuple[float, float]],
) -> tuple[Point, ...]:
    """Return a point for each set, the slowest first. measure: returns predicted ms and measured error of a set."""
    points = [Point(layers, *measure(layers)) for layers in sets]
    return tuple(sorted(points, key=lambda point: (-point.ms, point.error, point.layers)))


def on_front(points: Sequence[Point]) -> tuple[bool, ...]:
    """Return for each point if no other is as fast and as accurate, and better in one of the two."""
    return tuple(
        not any(
            other.ms <= point.ms and other.error <= point.error and (other.ms, other.error) != (point.ms, point.error)
            for other in points
        )
        for point in points
    )


def choose_point(points: Sequence[Point], max_error: float, number: int | None) -> int:
    """Return the number of a point: the one that is named, else the fastest with layers in 8 bits within max_error.

    Raises: MavcgError if there is none, with the least error.
    """
    if number is not None:
        if not 0 <= number < len(points):
            raise MavcgError(f"--point {number}: there are points 0 to {len(points) - 1}")
        if not points[number].layers:
            raise MavcgError(f"--point {number}: has no layer in 8 bits; the file itself is that model")
        return number
    quantised = [at for at, point in enumerate(points) if point.layers]
    if not quantised:
        raise MavcgError("no layer is predicted to be faster in 8 bits, and none can be in 8 bits")
    within = [at for at in quantised if points[at].error <= max_error]
    if not within:
        least = min(quantised, key=lambda at: points[at].error)
        raise MavcgError(
            f"--max-error {max_error:g}: the least error with layers in 8 bits is {points[least].error:.3g}; allow as "
            f"much, or take --point {least}"
        )
    return min(within, key=lambda at: (points[at].ms, points[at].error))


def judgements(
    layers: Sequence[tuple[str, str]],
    f32_ms: Mapping[str, float],
    int8_ms: Mapping[str, float],
    errors: Mapping[str, float | None],
) -> tuple[LayerJudgement, ...]:
    """Return the judgement of each layer. layers: names and operators. f32_ms, int8_ms: predicted ms by name."""
    return tuple(
        LayerJudgement(name, op, f32_ms.get(name, 0.0), int8_ms.get(name, 0.0), errors[name]) for name, op in layers
    )
