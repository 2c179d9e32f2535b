"""Primitives of foreign libraries in a selection: their costs, and what they gain for a network.

Only measured costs count, so that a foreign primitive is chosen only if it measured faster. The gain is that of the
optimum with these primitives over the one without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.choose.algorithms.choice import Alternative, Problem
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost, CostProvider
from mavcg.choose.algorithms.strategies import Selected, select
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST
from mavcg.kernels.primitives.foreign_gemm import FAMILY, foreign_primitives
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.primitive import Layout, Primitive, Scenario


@dataclass(frozen=True)
class ForeignGain:
    """Times of the optimum without and with foreign primitives.

    measured: convolutions with a foreign primitive whose cost is known. taken: foreign primitive of each convolution
    that has one in the optimum.
    """

    libraries: tuple[ForeignLibrary, ...]
    without_ms: float
    with_ms: float
    measured: tuple[str, ...]
    taken: Mapping[str, str]

    @property
    def gain(self) -> float:
        """Fraction of the time without them that foreign primitives save."""
        return 1.0 - self.with_ms / self.without_ms if self.without_ms else 0.0


def check_host(libraries: Sequence[ForeignLibrary], board: str) -> None:
    """Raise MavcgError if foreign libraries are requested for a machine other than this one."""
    if libraries and board != HOST:
        raise MavcgError(
            f"--foreign {libraries[0].name}: is a library of this machine and cannot be used for {board}; "
            f"leave it out, or use --board {HOST}"
        )


def primitives_of(libraries: Sequence[ForeignLibrary]) -> tuple[Primitive, ...]:
    """Return the primitives that call these libraries. Raises: MavcgError if a library is named twice."""
    labels = [library.label for library in libraries]
    if len(set(labels)) < len(labels):
        raise MavcgError(f"--foreign: {', '.join(labels)}: name each library once")
    return tuple(primitive for library in libraries for primitive in foreign_primitives(library))


@dataclass(frozen=True)
class ForeignCosts:
    """Costs with foreign primitives, known only where they were measured together with the default.

    base: costs of all primitives. default: the engine's primitive for most convolutions. Nothing models a foreign
    library, so both costs must be measured; a foreign one counts with the upper end of its interval.
    """

    base: CostProvider
    default: Primitive

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        cost = self.base.primitive(scenario, primitive)
        if primitive.family != FAMILY or cost is None:
            return cost
        default = self.base.primitive(scenario, self.default)
        if default is None or (cost.kind, default.kind) != (MEASURED, MEASURED):
            return None
        return replace(cost, ms=cost.cautious_ms, spread_ms=0.0)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`."""
        return self.base.conversion(layout_from, layout_to, c, h, w)


def _is_foreign(alternative: Alternative) -> bool:
    return alternative.primitive is not None and alternative.primitive.family == FAMILY


def foreign_gain(
    problem: Problem, libraries: Sequence[ForeignLibrary], best: Selected, time_limit_s: float
) -> ForeignGain:
    """Solve a problem without its foreign primitives, and compare. best: the optimum with them."""
    own = {
        name: tuple(a for a in alternatives if not _is_foreign(a))
        for name, alternatives in problem.alternatives.items()
    }
    without = select(replace(problem, alternatives=own), time_limit_s=time_limit_s)
    measured = tuple(name for name, alternatives in problem.alternatives.items() if len(own[name]) < len(alternatives))
    taken = {name: alternative.name for name, alternative in best.choice.chosen.items() if _is_foreign(alternative)}
    return ForeignGain(tuple(libraries), without.total_ms, best.total_ms, measured, taken)


def foreign_json(gain: ForeignGain) -> dict[str, Any]:
    """Return the gain of foreign libraries as JSON."""
    libraries = [
        {"name": library.name, "version": library.version, "digest": library.digest, "path": library.path}
        for library in gain.libraries
    ]
    return {
        "libraries": libraries,
        "without_ms": gain.without_ms,
        "with_ms": gain.with_ms,
        "gain": gain.gain,
        "measured": list(gain.measured),
        "taken": dict(gain.taken),
    }


def foreign_sentences(gain: ForeignGain) -> list[str]:
    """Return the gain of foreign libraries in sentences."""
    names = ", ".join(library.label for library in gain.libraries)
    if not gain.measured:
        return [
            f"foreign: no cost of {names} is known beside those of the engine; `mavcg tune --foreign` measures them"
        ]
    first = (
        f"foreign: {names} computes {len(gain.taken)} of {len(gain.measured)} convolutions that it was measured for in "
        f"the optimum, which takes {gain.with_ms:.4f} ms with it and {gain.without_ms:.4f} ms without ({gain.gain:.1%} "
        "less); `mavcg build` cannot use it"
    )
    return [first, *(f"foreign: {node} by {name}" for node, name in gain.taken.items())]
