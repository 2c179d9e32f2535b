"""Judges figures of boards of one type: slow boards by their probes, hot ones by temperature and clock; outliers."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.lab.fleet.board_task import Result
from mavcg.lab.fleet.fleet_file import FleetRules
from mavcg.lab.runners.bench_lines import InterleavedTimes, JobFailed, JobTimes

GOOD, SLOW, HOT, FAILED = "", "slow", "hot", "failed"


@dataclass(frozen=True)
class BoardSummary:
    """A board compared with the boards of its type.

    probe_ms: median of its probes. ratio: of probe_ms to its type's reference. spread: difference of the quartiles of
    its probes, relative to the median. probes, jobs: number of probes, and of figures; repeated: number of figures that
    did not count. celsius: highest temperature. khz: lowest clock after a job. outlier: True if its probes differ from
    its type's. aside: the reason why the board was left out, or "".
    """

    name: str
    kind: str
    probe_ms: float | None = None
    ratio: float | None = None
    spread: float | None = None
    probes: int = 0
    jobs: int = 0
    repeated: int = 0
    celsius: float | None = None
    khz: int | None = None
    outlier: bool = False
    aside: str = ""


def reference_ms(probes: Mapping[str, Sequence[float]]) -> float | None:
    """Return the reference time of a type's boards for the probe, in ms: the lower median of the boards' medians.

    For two boards that is the faster one's; otherwise a slow board of two would not be recognised.
    """
    medians = [statistics.median(times) for times in probes.values() if times]
    return statistics.median_low(medians) if medians else None


def is_hot(result: Result, rules: FleetRules) -> bool:
    """True if a zone was hot before or after a job, or the clock fell during it."""
    if isinstance(result, JobFailed):
        return False
    before, after = result.before, result.after
    hottest = max((condition.celsius for condition in (before, after) if condition.celsius is not None), default=None)
    if hottest is not None and hottest >= rules.hot_celsius:
        return True
    return bool(before.khz and after.khz and after.khz < (1 - rules.clock_drop) * before.khz)


def verdict(results: Sequence[Result], slowdown: float, rules: FleetRules) -> str:
    """Return the verdict on a unit's results. slowdown: ratio of the board's probe to its type's; 1 if unknown."""
    if any(isinstance(result, JobFailed) for result in results):
        return FAILED
    if any(is_hot(result, rules) for result in results):
        return HOT
    return SLOW if slowdown > rules.slow else GOOD


def summary(
    name: str,
    kind: str,
    probes: Mapping[str, Sequence[float]],
    results: Sequence[tuple[Result, str]],
    rules: FleetRules,
    aside: str,
) -> BoardSummary:
    """Return a board's summary. probes: board of this type -> times in ms. results: the board's, with verdicts."""
    own = probes.get(name, ())
    middles = {board: statistics.median(times) for board, times in probes.items() if times}
    middle = middles.get(name)
    ratio = None if middle is None else middle / statistics.median(middles.values())
    spread = None
    if len(own) > 1 and middle:
        low, _, high = statistics.quantiles(own, n=4, method="inclusive")
        spread = (high - low) / middle
    timed = [result for result, _ in results if isinstance(result, JobTimes | InterleavedTimes)]
    ends = [end for result in timed for end in (result.before, result.after)]
    return BoardSummary(
        name,
        kind,
        middle,
        ratio,
        spread,
        len(own),
        len(results),
        sum(word != GOOD for _, word in results),
        max((end.celsius for end in ends if end.celsius is not None), default=None),
        min((end.khz for end in ends if end.khz), default=None),
        ratio is not None and len(middles) > 1 and abs(ratio - 1) > rules.outlier,
        aside,
    )
