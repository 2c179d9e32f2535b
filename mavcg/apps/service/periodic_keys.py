"""Keys of app.toml about periods: period_ms, deadline_ms, priority, preemptible, stages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

from msgspec import Meta

from mavcg.errors import MavcgError

MOST_MS = 3_600_000
Milliseconds = Annotated[
    float, Meta(ge=0.001, le=MOST_MS, description=f"a number of milliseconds, from 0.001 to {MOST_MS}")
]
PartMilliseconds = Annotated[
    float, Meta(ge=0, le=MOST_MS, description=f"a number of milliseconds, from 0 to {MOST_MS}")
]
MOST_PRIORITY = 1_000_000
Priority = Annotated[
    int, Meta(ge=0, le=MOST_PRIORITY, description=f"a whole number from 0 to {MOST_PRIORITY}, the largest first")
]


@dataclass(frozen=True)
class WrittenPeriod:
    """The keys of a network as they are written; None: left out."""

    period_ms: float | None
    deadline_ms: float | None
    priority: int | None
    preemptible: bool | None


@dataclass(frozen=True)
class Periodic:
    """Jobs of a network: one is released in each period.

    deadline_ns: after the release. priority: the largest is the most urgent, and no two networks have the same.
    preemptible: more urgent jobs may run between two steps of a job; False: only before and after it.
    """

    period_ns: int
    deadline_ns: int
    priority: int
    preemptible: bool


def periodic_networks(
    written: Sequence[WrittenPeriod], fault: Callable[[str, str, str], MavcgError]
) -> tuple[Periodic, ...]:
    """Return the periods of all networks, or () if none has one.

    Without priorities, the network with the shorter deadline is more urgent. fault: makes an error of a key, what is
    wrong, and a remedy. Raises: MavcgError for keys that lack others, and for a priority that two networks have.
    """
    for number, own in enumerate(written):
        if own.period_ms is None:
            others = {"deadline_ms": own.deadline_ms, "priority": own.priority, "preemptible": own.preemptible}
            for key, value in others.items():
                if value is not None:
                    raise fault(f"network[{number}].{key}", "is there without period_ms", "give period_ms, too")
    if all(own.period_ms is None for own in written):
        return ()
    for number, own in enumerate(written):
        if own.period_ms is None:
            raise fault(
                f"network[{number}].period_ms",
                "missing, and other networks have one",
                "give every network a period, or build the others as an application of their own",
            )
        if own.priority is None and any(other.priority is not None for other in written):
            remedy = "give every network one, or none: then a shorter deadline is more urgent"
            raise fault(f"network[{number}].priority", "missing, and other networks have one", remedy)
        if own.priority is not None and own.priority in [other.priority for other in written[:number]]:
            raise fault(
                f"network[{number}].priority", f"{own.priority} is another network's", "give each network its own"
            )
    deadlines = [own.deadline_ms or own.period_ms or 0.0 for own in written]
    urgent_last = sorted(range(len(written)), key=lambda n: (-deadlines[n], -n))
    return tuple(
        Periodic(
            round((own.period_ms or 0.0) * 1e6),
            round(deadline * 1e6),
            urgent_last.index(number) + 1 if own.priority is None else own.priority,
            own.preemptible is not False,
        )
        for number, (own, deadline) in enumerate(zip(written, deadlines, strict=True))
    )


def preempting_pairs(periods: Sequence[Periodic]) -> frozenset[frozenset[int]]:
    """Return the pairs of networks, by number, of which one may preempt the other: both then hold buffers."""
    return frozenset(
        frozenset((a, b))
        for a, b in combinations(range(len(periods)), 2)
        if min((periods[a], periods[b]), key=lambda each: each.priority).preemptible
    )


@dataclass(frozen=True)
class AcceleratorStage:
    """A partition that an accelerator computes, as a whole. accelerator: its name. ms: worst-case time, given."""

    accelerator: Annotated[str, Meta(min_length=1, description="a name")]
    ms: Milliseconds


_CLUSTER = re.compile(r"cluster ([0-9]{1,4})")
Stage = Annotated[
    Annotated[str, Meta(pattern=f"^{_CLUSTER.pattern}$")] | AcceleratorStage,
    Meta(description="a processor", examples=['"cluster 0" or { accelerator = "npu", ms = 2.5 }']),
]


def processor_of(stage: str | AcceleratorStage) -> int | AcceleratorStage:
    """Return the number of a cluster, or the accelerator."""
    return stage if isinstance(stage, AcceleratorStage) else int(stage.removeprefix("cluster "))
