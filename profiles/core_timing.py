"""Read the options --core and --set: a core's timing facts, with some latencies changed for a what-if estimate."""

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError

if TYPE_CHECKING:  # modules of verbs import this one for `mavcg --help` too
    from mavcg.hardware.core import Core
    from mavcg.hardware.timing import Timing

_SETTING = re.compile(r"\s*([\w*]+)\s*->\s*([\w*]+)\s*(?:\.\s*(\w+)\s*)?=\s*(\d{1,4})\s*")


def core_timing(name: str, settings: Sequence[str] = ()) -> "tuple[Core, Timing]":
    """Return the AArch64 core of this name, and its timing with the settings applied. settings: values of --set.

    Raises: MavcgError for an unknown core, one of another architecture, one without timing facts, and a bad setting.
    """
    from mavcg.profiles.load import load_core
    from mavcg.profiles.timing import load_timing

    try:
        core = load_core(name)
    except MavcgError as error:
        raise of_core_option(error) from error
    if core.arch != "aarch64":
        raise MavcgError(f"--core {name}: is {core.arch}; the pipeline models are of AArch64: name an AArch64 core")
    timing = load_timing(core)
    for setting in settings:
        timing = with_setting(timing, setting)
    return core, timing


def of_core_option(error: MavcgError) -> MavcgError:
    """Return an error of the search for a core with --core in place of --cores, which that search names."""
    message = str(error)
    return type(error)("--core " + message.removeprefix("--cores ")) if message.startswith("--cores ") else error


def with_setting(timing: "Timing", setting: str) -> "Timing":
    """Return the timing with one latency changed, as "producer->consumer[.role]=cycles" says.

    Without a role the latency holds for every operand, and replaces the core's figures for single operands.
    Raises: MavcgError that names the valid values.
    """
    from mavcg.hardware.instr_classes import CLASSES, FAMILIES, ROLES

    match = _SETTING.fullmatch(setting)
    if match is None:
        raise MavcgError(
            f'--set "{setting}": does not have the form producer->consumer=cycles; write it as in "ldr_x->ins=3"'
        )
    producer, consumer, role, cycles = match[1], match[2], match[3] or "", int(match[4])
    known = [*CLASSES, *FAMILIES, "*"]
    for end, key in (("producer", producer), ("consumer", consumer)):
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}? " if near else ""
            names = ", ".join(known)
            raise MavcgError(f'--set "{setting}": no {end} is named {key}; {hint}the names are {names}')
    if role and role not in ROLES:
        raise MavcgError(f'--set "{setting}": no operand has the role {role}; the roles are {", ".join(ROLES)}')
    pair = (producer, consumer)
    roles = {role} if role else {"", *(known_role for *ends, known_role in timing.forwards if tuple(ends) == pair)}
    for operand_role in sorted(roles):
        timing = timing.with_forward(producer, consumer, operand_role, cycles)
    return timing
