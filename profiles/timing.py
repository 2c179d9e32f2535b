"""Read a core's timing for the pipeline models: facts of its own file, and others from the core that it names."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from mavcg.errors import ProfileError
from mavcg.hardware.core import Core
from mavcg.hardware.timing import ISSUE_QUEUE, REORDER_BUFFER, ClassTiming, Timing
from mavcg.profiles import schema
from mavcg.profiles.core_files import read_core
from mavcg.profiles.core_table import core_table
from mavcg.profiles.folders import files
from mavcg.profiles.rates import rate
from mavcg.profiles.schema import read_text
from mavcg.profiles.timing_rows import OwnTiming, read_own_timing

IN_FLIGHT = "window.in_flight"  # by figures of silicon; below the reorder buffer where registers and queues fill first
_REORDER_BUFFER = "window.reorder_buffer"
MOST_IN_FLIGHT = 4096


def load_timing(core: Core) -> Timing:
    """Return all known facts about the core's timing: those of its file, and others of the core that timing_of names.

    Classes and forwarding latencies are inherited one by one; width, pools, no_dual_issue and issue_distance each as a
    whole. An inherited row keeps its latency and units, and gets the rate that this core's units allow.

    Raises: ProfileError if no core has facts, if a name does not exist or leads back to itself, if a row has a unit
    that this core lacks, and if the core has no file.
    """
    return _timing(core, tuple((name, path, path.read_text(encoding="utf-8")) for name, path in _chain(core.core_type)))


@lru_cache(maxsize=256)
def _timing(core: Core, texts: tuple[tuple[str, Path, str], ...]) -> Timing:
    """Return the timing from the core's file and the files that it inherits from, nearest first.

    texts: name, path and text of each. The result is kept, because one command looks the same core up dozens of times.
    """
    chain = [(name, _read(path, text)) for name, path, text in texts]
    known = [own for _, own in chain]
    if not any(own.classes for own in known):
        raise ProfileError(
            f"{_file_of(core.name)}: instr: no timing of any instruction, so the core cannot be modelled; "
            "add rows or issue.timing_of"
        )
    width = next((own.width for own in known if own.width is not None), None)
    if width is None:
        raise ProfileError(f"{_file_of(core.name)}: issue.width: missing; add it or issue.timing_of")
    timing = Timing(
        core=core.core_type,
        order=core.order,
        width=width,
        pools=dict(next((own.pools for own in known if own.pools), {})),
        classes={key: row for own in reversed(known) for key, row in own.classes.items()},
        forwards={key: cycles for own in reversed(known) for key, cycles in own.forwards.items()},
        adjacent_forwards=_adjacent_forwards(known),
        disputed_forwards=_disputed_forwards(known),
        no_dual_issue=next((own.no_dual_issue for own in known if own.no_dual_issue), ()),
        forbidden_distances=next((own.forbidden_distances for own in known if own.forbidden_distances), ()),
        vector_queue=next((own.vector_queue for own in known if own.vector_queue is not None), 0),
        same_cycle_writes=next((own.same_cycle_writes for own in known if own.same_cycle_writes is not None), False),
        in_flight=_window_fact(core, IN_FLIGHT, _window_fact(core, _REORDER_BUFFER, REORDER_BUFFER)),
        issue_queue=_window_fact(core, "window.issue_queue", ISSUE_QUEUE),
    )
    for row in timing.classes.values():
        unknown = sorted({pool for use in row.units for pool in use.any_of} - set(timing.pools))
        if unknown:
            raise ProfileError(
                f"{_file_of(core.name)}: instr.{row.name}.units: no unit is called {unknown[0]}; "
                f"issue.pools has {', '.join(timing.pools) or 'none'}"
            )
    taken = {name: _take_row(name, chain, timing) for name in timing.classes if name not in known[0].classes}
    return replace(timing, classes={**timing.classes, **taken})


def _adjacent_forwards(known: Sequence[OwnTiming]) -> frozenset[tuple[str, str, str]]:
    """Return the forwardings that reach only the next multiply-accumulate, by the nearest file that has each."""
    adjacent: frozenset[tuple[str, str, str]] = frozenset()
    for own in reversed(known):
        adjacent = adjacent - own.forwards.keys() | own.adjacent_forwards
    return adjacent


def _disputed_forwards(known: Sequence[OwnTiming]) -> dict[tuple[str, str, str], int]:
    """Return the larger latencies of disputed forwardings, each by the nearest file that has the forwarding."""
    disputed: dict[tuple[str, str, str], int] = {}
    for own in reversed(known):
        disputed = {key: cycles for key, cycles in disputed.items() if key not in own.forwards}
        disputed |= own.disputed_forwards
    return disputed


def _window_fact(core: Core, key: str, otherwise: int) -> int:
    """Return a size of the core's out-of-order window, or `otherwise` if its file has no such fact.

    Raises: ProfileError for a value that is not a size.
    """
    facts = {fact.key: fact.value for fact in core.facts}
    return schema.whole(Path(_file_of(core.name)), facts, key, key, 1, MOST_IN_FLIGHT, otherwise, "entries")


def own_classes(core: Core) -> tuple[ClassTiming, ...] | None:
    """Return the rows of the core's own file; None if it has neither rows nor issue.timing_of."""
    path = files("cores").get(core.name)
    own = OwnTiming() if path is None else _own_timing(path)
    return tuple(own.classes.values()) if own.classes or own.timing_of is not None else None


def _take_row(name: str, chain: list[tuple[str, OwnTiming]], timing: Timing) -> ClassTiming:
    """Return a row of another core in the chain, with the rate that it has on this core."""
    row = timing.classes[name]
    nearer = list(takewhile(lambda link: name not in link[1].classes, chain))
    giver = chain[len(nearer)][0]
    if any(own.width or own.pools or own.no_dual_issue or own.forbidden_distances for _, own in nearer):
        row = replace(row, per_cycle=round(rate(row, timing), 4))
    return replace(row, source=f"{row.source} (as on {giver})")


def _file_of(name: str) -> str:
    return f"cores/{name}.toml"


def _chain(name: str) -> list[tuple[str, Path]]:
    """Return the files of the core and of those that it inherits facts from, nearest first.

    Raises: ProfileError for a name that is not a core, a cycle of names, and a core of another architecture or order.
    """
    known = files("cores")
    if name not in known:
        raise ProfileError(
            f"{_file_of(name)}: no such file, so the core's timing is unknown; add it to a folder of MAVCG_PROFILES"
        )
    kind = read_core(known[name])
    chain = [(name, known[name])]
    while (next_name := _own_timing(chain[-1][1]).timing_of) is not None:
        key_path = f"{_file_of(chain[-1][0])}: issue.timing_of"
        if next_name not in known:
            raise ProfileError(
                f"{key_path}: {next_name} is not a known core; correct the name or add cores/{next_name}.toml"
            )
        if next_name in [seen for seen, _ in chain]:
            cycle = " -> ".join([*(seen for seen, _ in chain), next_name])
            raise ProfileError(f"{key_path}: forms a cycle, {cycle}; remove one of them")
        relative = read_core(known[next_name])
        if (relative.arch, relative.order) != (kind.arch, kind.order):
            raise ProfileError(
                f"{key_path}: {next_name} is {relative.arch} and {relative.order} of order, {name} is {kind.arch} and "
                f"{kind.order} of order; take a core of the same kind".replace("in of order", "in order")
            )
        chain.append((next_name, known[next_name]))
    return chain


def _own_timing(path: Path) -> OwnTiming:
    return _read(path, read_text(path))


@lru_cache(maxsize=256)
def _read(path: Path, text: str) -> OwnTiming:
    """Return the timing tables of a file with this text; kept, since other cores inherit from the same file."""
    table = core_table(path, text)
    return read_own_timing(path, table, table["order"]["value"])
