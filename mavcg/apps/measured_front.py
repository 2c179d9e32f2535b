"""Measured front: each point of a plan's front as a library, run on this machine beside its modelled throughput.

A network has a variant for each schedule that some point gives it. Variants are the networks of one library, which
shares their kernels and weights, and run in turns, so that noise falls on all points alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.apps.application import firings
from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.apps.buildable import parallel_pairs
from mavcg.apps.csdf import compress
from mavcg.apps.library import build_application
from mavcg.apps.library_plan import place_networks
from mavcg.apps.plan import ApplicationPlan, MemorySolution
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.model.model_request import ModelRequest
from mavcg.runtime.application import load_application
from mavcg.runtime.application_text import MAX_NETWORKS
from mavcg.runtime.random_inputs import random_inputs
from mavcg.runtime.timed_runs import Times, time_runs
from mavcg.specs.model_program import Program

ROUNDS, SECONDS = 9, 0.03  # of a variant: rounds, and the least time of each
_STEM = "libmeasured-front"


@dataclass(frozen=True)
class MeasuredPoint:
    """A point of the front as it runs: bytes of its library's arena, and the times of each network, by name."""

    arena_bytes: int
    times: Mapping[str, Times]

    @property
    def run_ms(self) -> float:
        """Return the time of a run of every network, one after the other, in ms: the sum of their medians."""
        return sum(times.median for times in self.times.values())


Variants = Sequence[tuple[NetworkEntry, ...]]  # of each network; points choose one of each


def check_measurable(file: ApplicationFile) -> None:
    """Raise MavcgError for a network whose schedules cannot be run: a pipeline, whose stages run layer by layer."""
    for entry in file.networks:
        if entry.partitions:
            raise MavcgError(
                f"{file.path}: line {entry.line}: network '{entry.name}': --measure runs schedules, and a pipeline has "
                "none; leave partitions out, or measure the library with mavcg bench --network"
            )


def front_variants(file: ApplicationFile, planned: ApplicationPlan) -> tuple[Variants, tuple[tuple[int, ...], ...]]:
    """Return the variants of each network, and for each point of the front the number of the variant of each network.

    A network without layers by parts is built as app.toml says; another runs in the point's schedule.
    """
    variants: list[dict[str, NetworkEntry]] = [{} for _ in file.networks]
    points = [
        tuple(_variant(entry, point, own) for entry, own in zip(file.networks, variants, strict=True))
        for point in planned.front
    ]
    return [tuple(own.values()) for own in variants], tuple(points)


def _variant(entry: NetworkEntry, point: MemorySolution, known: dict[str, NetworkEntry]) -> int:
    """Return the number of a point's variant of a network, which is added to the known ones if it is new."""
    (partition,) = point.derived.app.partitions_of(entry.name)
    by_parts = any(count > 1 for (cnn, _), count in point.phases.items() if cnn == entry.name)
    order = compress(tuple(firings(partition.schedule))) if by_parts and not entry.schedules else None
    key = str(order)
    if key not in known:
        name = f"{entry.name}_{len(known)}"
        known[key] = replace(entry, name=name) if order is None else replace(entry, name=name, schedules=(order,))
    return list(known).index(key)


def measure_front(
    file: ApplicationFile,
    planned: ApplicationPlan,
    request: ModelRequest,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[MeasuredPoint, ...]:
    """Build and run the points of a plan's front on this machine, and return them in order.

    request: as of build_application, for this machine; its threads run each network. Raises: MavcgError as
    check_measurable and build_application.
    """
    variants, points = front_variants(file, planned)
    entries = [entry for own in variants for entry in own]
    programs, times = dict[str, Program](), dict[str, Times]()
    with scratch_folder("mavcg-front-") as folder:
        for begin in range(0, len(entries), MAX_NETWORKS):
            some = entries[begin : begin + MAX_NETWORKS]
            progress(f"building schedules {begin + 1} to {begin + len(some)} of {len(entries)}")
            library = Path(folder) / f"{_STEM}-{begin}.so"
            whole = replace(file, memory=None, parallel=(), networks=tuple(some))
            built = build_application(whole, replace(request, output=library, strip=False), progress)
            programs |= {placed.program.name: placed.program for placed in built.application.networks}
            times |= _run_interleaved(library, max(1, request.threads), progress)
    pairs, measured = parallel_pairs(file), list[MeasuredPoint]()
    for numbers in points:
        chosen = [own[number].name for own, number in zip(variants, numbers, strict=True)]
        placed = place_networks("point", [programs[name] for name in chosen], pairs)
        own_times = {entry.name: times[name] for entry, name in zip(file.networks, chosen, strict=True)}
        measured.append(MeasuredPoint(placed.arena_bytes, own_times))
    return tuple(measured)


def _run_interleaved(library: Path, threads: int, progress: Callable[[str], None]) -> dict[str, Times]:
    """Return the times of a library's networks, run in turns on seeded inputs."""
    with load_application(library, threads=threads) as application:
        inputs = {name: random_inputs(application[name], 0) for name in application.networks}
        rounds: dict[str, list[float]] = {name: [] for name in inputs}
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}: {len(rounds)} networks with {threads} threads")
            for name, arrays in inputs.items():
                model = application[name]
                own = time_runs(lambda model=model, arrays=arrays: model.run(*arrays), 1, 1, SECONDS)  # type: ignore[misc]
                rounds[name] += own.ms
    return {name: Times(tuple(ms)) for name, ms in rounds.items()}


def measured_json(point: MeasuredPoint, threads: int) -> dict[str, Any]:
    """Return `measured` of a point in the document of `mavcg app plan --json`; arena_bytes is that of its library."""
    return {
        "arena_bytes": point.arena_bytes,
        "threads": max(1, threads),
        "run_ms": round(point.run_ms, 5),
        "networks": [
            {
                "name": name,
                "median_ms": round(times.median, 5),
                "min_ms": round(min(times.ms), 5),
                "spread_ms": round(times.spread, 5),
                "runs": len(times.ms),
                "per_second": round(1e3 / times.median, 3),
            }
            for name, times in point.times.items()
        ],
    }
