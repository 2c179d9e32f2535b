"""A core's timing as the pipeline models want it: the facts of its own file, the gaps filled from the core it names."""

from dataclasses import replace
from pathlib import Path

from mavcg.core import Core
from mavcg.errors import ProfileError
from mavcg.profiles.load import files, read_core
from mavcg.profiles.schema import read_toml
from mavcg.profiles.timing_rows import OwnTiming, read_own_timing, spell_out_sources
from mavcg.timing import ClassTiming, Timing


def load_timing(core: Core) -> Timing:
    """Everything known of the core's timing: its file's facts, else those of the core that its timing_of names.

    Classes, forwarding latencies, pools and width are taken one by one, rules (apart, spaced) all or none.

    Raises: ProfileError when neither has any, when a name leads nowhere or in a circle, when an inherited unit is none
        of the core's; MavcgError when the core has no file.
    """
    chain = _chain(core.name)
    known = [own for _, own in chain]
    width = next((own.width for own in known if own.width is not None), None)
    pools = next((own.pools for own in known if own.pools), None)
    classes: dict[str, ClassTiming] = {}
    for name, own in reversed(chain):
        inherited = "" if name == core.name else f" (taken from {name})"
        classes |= {key: replace(row, source=row.source + inherited) for key, row in own.classes.items()}
    if not classes:
        raise ProfileError(f"{_place(core.name)}: instr: no timing of any instruction; add rows or issue.timing_of")
    if width is None or pools is None:
        lacking = "width" if width is None else "pools"
        raise ProfileError(f"{_place(core.name)}: issue.{lacking}: missing; add it or issue.timing_of")
    for row in classes.values():
        unknown = sorted({pool for use in row.units for pool in use.any_of} - set(pools))
        if unknown:
            raise ProfileError(
                f"{_place(core.name)}: instr.{row.name}.units: no such unit: {unknown[0]}; "
                f"issue.pools has {', '.join(pools)}"
            )
    return Timing(
        core=core.name,
        order=core.order,
        width=width,
        pools=dict(pools),
        classes=classes,
        forwards={key: cycles for own in reversed(known) for key, cycles in own.forwards.items()},
        apart=next((own.apart for own in known if own.apart), ()),
        spacings=next((own.spacings for own in known if own.spacings), ()),
    )


def _place(name: str) -> str:
    return f"cores/{name}.toml"


def _chain(name: str) -> list[tuple[str, OwnTiming]]:
    """The core and those whose facts it takes, nearest first.

    Raises: ProfileError for a name that is no core, a circle, a core of another architecture or order.
    """
    known = files("cores")
    if name not in known:
        raise ProfileError(f"{_place(name)}: no such file, so nothing is known of its timing; add it (MAVCG_PROFILES)")
    chain = [(name, _own(known[name]))]
    kind = read_core(known[name])
    while (next_name := chain[-1][1].timing_of) is not None:
        place = f"{_place(chain[-1][0])}: issue.timing_of"
        if next_name not in known:
            raise ProfileError(f"{place}: {next_name} is no core; mend the name or add cores/{next_name}.toml")
        if next_name in [seen for seen, _ in chain]:
            circle = " -> ".join([*(seen for seen, _ in chain), next_name])
            raise ProfileError(f"{place}: leads in a circle, {circle}; remove one of them")
        other = read_core(known[next_name])
        if (other.arch, other.order) != (kind.arch, kind.order):
            raise ProfileError(
                f"{place}: {next_name} is {other.arch}, {other.order} of order, "
                f"{name} is {kind.arch}, {kind.order}; take a core of the same kind"
            )
        chain.append((next_name, _own(known[next_name])))
    return chain


def _own(path: Path) -> OwnTiming:
    table = spell_out_sources(path, read_toml(path))
    return read_own_timing(path, table, table["order"]["value"])
