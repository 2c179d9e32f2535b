"""The options --core and --set: a core's timing facts, some of them changed for a what-if estimate."""

import difflib
import re
from collections.abc import Sequence

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing

_SETTING = re.compile(r"\s*([\w*]+)\s*->\s*([\w*]+)\s*(?:\.\s*(\w+)\s*)?=\s*(\d{1,4})\s*")
SET_HELP = 'A latency to assume, such as "ldr_x->ins=3" or "fmla_q->fmla_q.acc=2", in cycles; may be given again.'


def core_timing(name: str, settings: Sequence[str] = ()) -> tuple[Core, Timing]:
    """Return the AArch64 core of this name and its timing, with the settings applied.

    Raises: MavcgError for an unknown core, one of another architecture, one without timing facts, a bad setting.
    """
    from mavcg.profiles.load import load_core
    from mavcg.profiles.timing import load_timing

    try:
        core = load_core(name)
    except MavcgError as error:
        raise of_core_option(error) from error
    if core.arch != "aarch64":
        raise MavcgError(f"--core {name}: is {core.arch}; the pipeline models know AArch64 code: name a core of it")
    timing = load_timing(core)
    for setting in settings:
        timing = with_setting(timing, setting)
    return core, timing


def of_core_option(error: MavcgError) -> MavcgError:
    """Return the same error for the option --core: the search by name calls it --cores."""
    words = str(error)
    return type(error)("--core " + words.removeprefix("--cores ")) if words.startswith("--cores ") else error


def with_setting(timing: Timing, setting: str) -> Timing:
    """Return the timing with one latency changed, from "producer->consumer[.role]=cycles".

    Without a role it holds for every operand, and replaces the core's figures of single ones.
    Raises: MavcgError that names the valid values.
    """
    from mavcg.hardware.instr_classes import CLASSES, FAMILIES, ROLES

    found = _SETTING.fullmatch(setting)
    if found is None:
        raise MavcgError(f'--set "{setting}": not of the form producer->consumer=cycles; write "ldr_x->ins=3"')
    producer, consumer, role, cycles = found[1], found[2], found[3] or "", int(found[4])
    known = [*CLASSES, *FAMILIES, "*"]
    for which, key in (("producer", producer), ("consumer", consumer)):
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}? " if near else ""
            names = ", ".join(known)
            raise MavcgError(f'--set "{setting}": no {which} is named {key}; {hint}the names are {names}')
    if role and role not in ROLES:
        raise MavcgError(f'--set "{setting}": no operand has the role {role}; the roles are {", ".join(ROLES)}')
    roles = {role} if role else {"", *(r for made, read, r in timing.forwards if (made, read) == (producer, consumer))}
    for each in sorted(roles):
        timing = timing.with_forward(producer, consumer, each, cycles)
    return timing
