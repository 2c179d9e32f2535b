"""Which of a function's versions are kept: bodies that came out equal are shared, those that bring little are dropped.

Source: uarch-codegen paper, chapter 3.2.3 ("removes the versions that do not exhibit performance improvement"), and
its 3.66 % of code growth for six clones (chapter 4.2) as what `--max-growth` bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.assembly.tuning import VersionTuning
from mavcg.core import GENERIC, Core
from mavcg.program_road.versions import Body

MIN_GAIN = 0.01  # over generic: a version that is known to bring less is not worth its bytes


@dataclass(frozen=True)
class Gain:
    """How much faster than the generic version a version is on its own core: 0.11 is 11 % less time.

    how: where the figure comes from, in words that say whether it was measured or modelled.
    """

    fraction: float
    how: str


Gains = Mapping[tuple[str, str], Gain]  # (function, core) -> gain


@dataclass(frozen=True)
class Limits:
    """min_gain: versions with a known gain under this are dropped. max_growth: bound on code growth, in percent of
    the single-version build; None: no bound. drop_slower: whether versions go that the model says are slower
    than generic by more than its error."""

    min_gain: float = MIN_GAIN
    max_growth: float | None = None
    drop_slower: bool = True


@dataclass(frozen=True)
class Slower:
    """A version that the model of its core says is slower than generic, and what follows from it.

    generic, own: work per cycle of the main loop, in `unit` a cycle. error: of the core's model, a fraction; None:
    not known. is_dropped: whether the version goes; is_over_error: whether the model alone would drop it. why: the
    figures and the verdict in words.
    """

    generic: float
    own: float
    unit: str
    error: float | None
    is_dropped: bool
    why: str
    is_over_error: bool = False

    @property
    def more_time(self) -> float:
        """Time that the version takes over generic's, 0.14 for 14 % more."""
        return self.generic / self.own - 1


@dataclass(frozen=True)
class Kept:
    """What a core runs in the end.

    body: label of the version whose code it runs: its own, one that came out equal, or "generic" when dropped.
    bytes: size of the function's code in that body. dropped: why the version that was made is not used, or "".
    slower: the model's word where it says that the version is slower than generic.
    """

    label: str
    body: str
    bytes: int
    dropped: str = ""
    slower: Slower | None = None

    @property
    def shares_body_with(self) -> str | None:
        """The version that it shares its code with because both came out equal."""
        return self.body if self.body != self.label and not self.dropped else None


@dataclass(frozen=True)
class Sizes:
    """Bytes of one body: code of the function itself, and everything that its object file adds to the program."""

    code: int
    loaded: int


@dataclass(frozen=True)
class FunctionChoice:
    """The versions of one function, generic first."""

    function: str
    kept: tuple[Kept, ...]

    @property
    def bodies(self) -> tuple[str, ...]:
        """Labels of the bodies that are linked, each once."""
        return tuple(dict.fromkeys(k.body for k in self.kept))

    @property
    def is_single(self) -> bool:
        """Whether one body serves every core, so that there is nothing to dispatch."""
        return len(self.bodies) == 1


def share_equal(bodies: Sequence[Body], sizes: Mapping[str, Sizes]) -> FunctionChoice:
    """Give each version the first body with the same machine code. sizes: by symbol of the body."""
    first: dict[str, Body] = {}
    for body in bodies:
        first.setdefault(body.key, body)
    kept = tuple(Kept(b.label, first[b.key].label, sizes[first[b.key].symbol].code) for b in bodies)
    return FunctionChoice(bodies[0].function, kept)


def drop_useless(choice: FunctionChoice, gains: Gains, min_gain: float) -> FunctionChoice:
    """Send cores whose version is known to bring less than `min_gain` over generic back to generic."""

    def decide(kept: Kept) -> Kept:
        gain = gains.get((choice.function, kept.label))
        if kept.body == GENERIC or gain is None or gain.fraction >= min_gain:
            return kept
        reason = f"{gain.fraction:+.1%} over generic ({gain.how}), under the {min_gain:.1%} asked for"
        return _to_generic(choice, kept, reason)

    return replace(choice, kept=tuple(decide(k) for k in choice.kept))


def drop_slower(
    choice: FunctionChoice,
    tunings: Mapping[str, VersionTuning],
    cores: Mapping[str, Core],
    gains: Gains,
    dropping: bool = True,
) -> FunctionChoice:
    """Send cores back to generic whose version is slower than generic by more than the error of the core's model.

    tunings: the model's accounts, by core. gains: measured ones, which overrule the model. dropping: False keeps them
    all and only says which are slower.
    """

    def decide(kept: Kept) -> Kept:
        tuning = tunings.get(kept.label)
        if kept.body == GENERIC or tuning is None or not tuning.generic or not tuning.own:
            return kept
        if tuning.own >= tuning.generic:
            return kept
        error = cores[kept.label].model_error
        measured = gains.get((choice.function, kept.label))
        slower = _slower(tuning, error, measured, dropping)
        kept = replace(kept, slower=slower)
        return _to_generic(choice, kept, slower.why) if slower.is_dropped else kept

    return replace(choice, kept=tuple(decide(kept) for kept in choice.kept))


def _slower(tuning: VersionTuning, error: float | None, measured: Gain | None, dropping: bool) -> Slower:
    """The verdict on a version that is slower by the model."""
    assert tuning.generic and tuning.own
    more = tuning.generic / tuning.own - 1
    figures = (
        f"{tuning.own:.2f} {tuning.unit}/cycle where generic has {tuning.generic:.2f}, {more:.1%} more time (model)"
    )
    is_dropped = False
    if measured is not None:
        verdict = f"overruled: {measured.fraction:+.1%} ({measured.how})"
    elif error is None:
        verdict = "the model's error on this core is not known: nothing is dropped by it"
    elif not tuning.is_hottest:
        verdict = "the model cannot time a loop that is hotter: nothing is dropped by it"
    elif more <= error:
        verdict = f"within the model's error of {error:.1%}"
    elif not dropping:
        verdict = f"over the model's error of {error:.1%}, kept as asked for"
    else:
        verdict, is_dropped = f"over the model's error of {error:.1%}", True
    over = error is not None and tuning.is_hottest and more > error
    return Slower(tuning.generic, tuning.own, tuning.unit, error, is_dropped, f"{figures}, {verdict}", over)


@dataclass(frozen=True)
class GrowthLimit:
    """A bound on code growth, and what is needed to keep it.

    max_growth: in percent of single_bytes. sizes: by (function, body label). worth: by (function, core label): share of
    run time times gain, any unit. dispatcher_bytes: what a function's dispatcher costs as long as it has more than one
    body.
    """

    max_growth: float
    single_bytes: int
    sizes: Mapping[tuple[str, str], Sizes]
    worth: Mapping[tuple[str, str], float]
    dispatcher_bytes: int

    @property
    def allowed_bytes(self) -> float:
        """Bytes that versions and dispatchers may add."""
        return self.max_growth * self.single_bytes / 100

    def added_bytes(self, choices: Sequence[FunctionChoice]) -> int:
        """Bytes that these choices are expected to add."""
        bodies = sum(self.sizes[c.function, body].loaded for c in choices for body in c.bodies if body != GENERIC)
        return bodies + self.dispatcher_bytes * sum(not choice.is_single for choice in choices)


def drop_for_growth(
    choices: Sequence[FunctionChoice], limit: GrowthLimit, allowed_bytes: float | None = None
) -> list[FunctionChoice]:
    """Drop bodies, least worth a byte first, until what is left is expected to add at most what is allowed.

    allowed_bytes: tighter than the limit's own, where linking showed that more was added than expected.
    """
    allowed = limit.allowed_bytes if allowed_bytes is None else allowed_bytes
    current = list(choices)
    while limit.added_bytes(current) > allowed:
        candidates = [(i, body) for i, c in enumerate(current) for body in c.bodies if body != GENERIC]
        if not candidates:
            break

        def value(candidate: tuple[int, str]) -> float:
            choice, body = current[candidate[0]], candidate[1]
            gained = sum(limit.worth.get((choice.function, k.label), 0.0) for k in choice.kept if k.body == body)
            return gained / max(1, limit.sizes[choice.function, body].loaded)

        index, body = min(candidates, key=value)
        bytes_ = limit.sizes[current[index].function, body].loaded
        reason = f"its {bytes_} bytes would exceed --max-growth {limit.max_growth:g} %"
        current[index] = _drop_body(current[index], body, reason)
    return current


def _drop_body(choice: FunctionChoice, body: str, reason: str) -> FunctionChoice:
    return replace(choice, kept=tuple(_to_generic(choice, k, reason) if k.body == body else k for k in choice.kept))


def _to_generic(choice: FunctionChoice, kept: Kept, reason: str) -> Kept:
    return replace(kept, body=GENERIC, bytes=choice.kept[0].bytes, dropped=reason)
