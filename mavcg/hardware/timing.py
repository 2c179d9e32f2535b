"""Timing of each instruction class on one core, and rules of dual issue: the input of the pipeline models."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mavcg.errors import MavcgError
from mavcg.hardware.instr_classes import CLASSES, lineage

INDEPENDENT = -1  # value of a forwarding latency: the consumer never waits for that operand
REORDER_BUFFER = 128  # micro-operations in flight if the core's file has no figure
ISSUE_QUEUE = 8  # micro-operations that wait before each unit if the core's file has no figure


@dataclass(frozen=True)
class UnitUse:
    """A micro-operation, which occupies one unit. any_of: pools whose units can execute it. cycles: how long."""

    any_of: tuple[str, ...]
    cycles: int = 1


@dataclass(frozen=True)
class ClassTiming:
    """Timing of one instruction class on one core.

    latency: cycles from its issue to the issue of an instruction that reads its result. per_cycle: instructions per
    cycle in a long sequence of independent ones. units: its micro-operations; empty if it needs no unit. blocks: for
    in-order cores, cycles from its issue in which nothing else issues: 0 if it can be dual-issued, 1 if never, 2 for an
    A55's q load. first: for in-order cores, True if it issues only in the first slot of a cycle. last: for in-order
    cores, True if it issues beside an earlier instruction although it blocks, and ends that cycle. narrows:
    for in-order cores, cycles after those that it blocks in which it takes one issue slot. unaligned: additional
    cycles of its units, and of `blocks` unless 0, for an access to 16 bytes at no multiple of 16. slots: for
    out-of-order cores, the dispatch slots that it takes where these are more than its micro-operations.
    """

    name: str
    latency: int
    per_cycle: float
    units: tuple[UnitUse, ...] = ()
    blocks: int = 0
    source: str = ""
    first: bool = False
    unaligned: int = 0
    last: bool = False
    narrows: int = 0
    slots: int = 0


@dataclass(frozen=True)
class NoDualIssue:
    """Two sets of classes: an instruction of one set never issues in the same cycle as one of the other."""

    these: frozenset[str]
    those: frozenset[str]
    source: str


@dataclass(frozen=True)
class ForbiddenDistance:
    """A forbidden issue distance: one of `then` never issues exactly `cycles` cycles after one of `first`."""

    first: frozenset[str]
    then: frozenset[str]
    cycles: int
    source: str


@dataclass(frozen=True)
class Timing:
    """The timing of one core, as the pipeline models use it.

    order: "in" or "out". width: instructions issued (in order) or micro-operations dispatched (out of order) per cycle.
    pools: number of units of each pool, by name. classes: timing by class name; unknown classes are absent.
    forwards: (producer, consumer, role) -> cycles, if they differ from the producer's latency; producer and consumer
        are classes, families or "*", role is one of instr_classes.ROLES or "" for every operand. INDEPENDENT: no wait.
    in_flight, issue_queue: on an out-of-order core, maximum micro-operations between dispatch and retirement, and
        waiting before each unit.
    vector_queue: on an in-order core, number of vector instructions that may wait for operands or units while later
        instructions issue; 0 if a waiting instruction stalls the core. Vector instructions issue in order.
    same_cycle_writes: on an in-order core, True if two instructions of equal latency that write the same register may
        issue in the same cycle.
    adjacent_forwards: on an in-order core, those of `forwards`, of accumulators, that reach only the next
        multiply-accumulate: no op of a class that any of them names (`accumulates`) may lie between, in program order.
    disputed_forwards: those of `forwards` for which a cited source has more cycles -> these cycles. Models use
        `forwards`; a schedule keeps to the larger latency if that costs no cycle.
    """

    core: str
    order: str
    width: int
    pools: Mapping[str, int]
    classes: Mapping[str, ClassTiming]
    forwards: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    no_dual_issue: tuple[NoDualIssue, ...] = ()
    forbidden_distances: tuple[ForbiddenDistance, ...] = ()
    in_flight: int = REORDER_BUFFER
    issue_queue: int = ISSUE_QUEUE
    vector_queue: int = 0
    same_cycle_writes: bool = False
    adjacent_forwards: frozenset[tuple[str, str, str]] = frozenset()
    disputed_forwards: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    def independent(self, consumer: str, role: str) -> bool:
        """Return True if instructions of class `consumer` never wait for an operand in this role (INDEPENDENT)."""
        known = self._independent
        if (consumer, role) not in known:
            known[consumer, role] = any(self.forwards.get(("*", n, role)) == INDEPENDENT for n in lineage(consumer))
        return known[consumer, role]

    def of(self, name: str) -> ClassTiming:
        """Return the timing of a class, or of its nearest parent with a timing (instr_classes.lineage).

        Raises: MissingFact if neither the class nor a parent has a timing on this core.
        """
        for candidate in lineage(name):
            if candidate in self.classes:
                return self.classes[candidate]
        raise MissingFact(
            f"cores/{self.core}.toml: instr.{name}: no facts about instructions such as `{CLASSES[name].example}`; "
            f"add a row, or take a core that has one (`mavcg cores check` lists what each core lacks)"
        )

    def latency(self, producer: str, consumer: str, role: str = "", adjacent: bool = True) -> int:
        """Return the cycles from the issue of `producer` to that of a `consumer` that reads its result in this role.

        The most specific forwarding fact counts: the producer's class before its parents, family and "*"; then the
        same role before any role; then the consumer's class before its parents, family and "*".
        adjacent: False if another multiply-accumulate lies between the two: adjacent_forwards do not count then.
        """
        key = producer, consumer, role, adjacent
        known = self._latencies
        if key not in known:
            known[key] = self._find_latency(producer, consumer, role, adjacent)
        return known[key]

    def _find_latency(self, producer: str, consumer: str, role: str, adjacent: bool) -> int:
        key = self.forward_of(producer, consumer, role, adjacent)
        return self.of(producer).latency if key is None else self.forwards[key]

    def forward_of(self, producer: str, consumer: str, role: str, adjacent: bool = True) -> tuple[str, str, str] | None:
        """Return the key of the forwarding fact that `latency` counts for these; None if it is the class's latency."""
        for made_by in (*lineage(producer), CLASSES[producer].family, "*"):
            for as_role in dict.fromkeys((role, "")):
                for read_by in (*lineage(consumer), CLASSES[consumer].family, "*"):
                    key = made_by, read_by, as_role
                    if key in self.forwards and (adjacent or key not in self.adjacent_forwards):
                        return key
        return None

    def accumulates(self, op_class: str) -> bool:
        """Return True if an op of this class ends the reach of an earlier one's adjacent forwarding."""
        known = self._accumulates
        if op_class not in known:
            ends = {end for producer, consumer, _ in self.adjacent_forwards for end in (producer, consumer)}
            known[op_class] = not ends.isdisjoint((*lineage(op_class), CLASSES[op_class].family))
        return known[op_class]

    # Cached results: the models repeat a few lookups many times.
    @cached_property
    def _latencies(self) -> dict[tuple[str, str, str, bool], int]:
        return {}

    @cached_property
    def _accumulates(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _independent(self) -> dict[tuple[str, str], bool]:
        return {}

    def write_order(self, earlier: int, later: int) -> int:
        """Return the cycles from the issue of an instruction to that of a later one that writes the same register.

        earlier, later: latencies of the first and of the later instruction, in cycles. The later result must not be
        written before the earlier one.
        """
        return max(0, earlier - later) if self.same_cycle_writes else max(1, earlier - later + 1)

    def key(self) -> str:
        """Return a text that identifies these facts, the same in every process, as a key of cached results."""
        return self._key

    @cached_property
    def _key(self) -> str:
        return repr(
            (
                (self.core, self.order, self.width, sorted(self.pools.items()), self.in_flight, self.issue_queue),
                (self.vector_queue, self.same_cycle_writes),
                sorted(self.classes.items(), key=lambda item: item[0]),
                sorted(self.forwards.items()),
                sorted(self.adjacent_forwards),
                sorted(self.disputed_forwards.items()),
                [(sorted(rule.these), sorted(rule.those)) for rule in self.no_dual_issue],
                [(sorted(rule.first), sorted(rule.then), rule.cycles) for rule in self.forbidden_distances],
            )
        )

    def with_forward(self, producer: str, consumer: str, role: str, cycles: int) -> "Timing":
        """Return the timing with one forwarding latency changed, at any distance, for what-if questions."""
        key = producer, consumer, role
        disputed = {other: latency for other, latency in self.disputed_forwards.items() if other != key}
        return replace(
            self,
            forwards={**self.forwards, key: cycles},
            adjacent_forwards=self.adjacent_forwards - {key},
            disputed_forwards=disputed,
        )

    def with_disputed(self) -> "Timing":
        """Return the timing with the larger latency of each forwarding about which sources disagree."""
        if not self.disputed_forwards:
            return self
        return replace(self, forwards={**self.forwards, **self.disputed_forwards}, disputed_forwards={})


class MissingFact(MavcgError):
    """Raised when a model needs the timing of an instruction class that the core's profile lacks."""
