"""Schedules that the user gives for a network's partitions, checked against its layers and data."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mavcg.apps.application import Cnn, Partition, ScheduleBlock, firings
from mavcg.apps.csdf import run_schedule, to_csdf
from mavcg.errors import MavcgError


def with_schedules(
    cnn: Cnn, partitions: Sequence[Partition], schedules: Sequence[ScheduleBlock], location: str
) -> list[Partition]:
    """Return a CNN's partitions with the given schedules, in order; inputs that a schedule omits run first.

    Every layer runs once, or as often as it has output rows, which means that it is computed by parts. location: of the
    schedules, for messages. Raises: MavcgError naming a layer that is unknown, missing, or runs too often, too early or
    in unsupported parts.
    """
    if len(schedules) != len(partitions):
        raise MavcgError(
            f"{location}: {len(schedules)} schedules for {len(partitions)} partitions of {cnn.name}; give one for each"
        )
    return [_fix_partition(cnn, p, schedule, location) for p, schedule in zip(partitions, schedules, strict=True)]


def _fix_partition(cnn: Cnn, partition: Partition, schedule: ScheduleBlock, location: str) -> Partition:
    own = {name: cnn.layer(name) for name in partition.layers}
    named = set(firings(schedule))
    for name in sorted(named - set(own)):
        if any(layer.name == name for layer in cnn.layers):
            raise MavcgError(f"{location}: '{name}' belongs to another partition than {partition.name}; move it there")
        near = ", ".join(difflib.get_close_matches(name, own, n=3) or list(own)[:3])
        raise MavcgError(f"{location}: '{name}' is not a layer of {cnn.name}; did you mean {near}?")
    inputs = tuple(name for name, layer in own.items() if layer.kind == "input" and name not in named)
    left_out = [name for name in own if name not in named and name not in inputs]
    if left_out:
        raise MavcgError(f"{location}: layer '{left_out[0]}' of {partition.name} is missing; add it")
    whole = ScheduleBlock((*inputs, *schedule.entries))
    phases = Counter(firings(whole))
    for name, count in phases.items():
        rows = own[name].out_rows if own[name].by_parts else 1
        if count not in (1, rows):
            allowed = f"once, or {rows} times, by rows" if rows > 1 else "once: it cannot be computed by parts"
            raise MavcgError(f"{location}: layer '{name}' runs {count} times; let it run {allowed}")
    try:
        run_schedule(to_csdf(cnn, partition, phases), firings(whole))
    except MavcgError as error:
        raise MavcgError(f"{location}: {error}; change the order") from error
    return replace(partition, schedule=whole, fixed=True)
