"""A profile: samples with their event, and the core type of each sample's CPU."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mavcg.errors import ProfileError
from mavcg.hardware.board import Board
from mavcg.program.profiling.clonable import is_kernel, is_nameless, is_system
from mavcg.program.profiling.sample_table import UNKNOWN, Offsets, SampleTable

if TYPE_CHECKING:
    import pandas as pd

# Below this share of the samples in the program's own code, missing function names are not an error.
_OWN_SHARE_MIN = 0.05
_NAMELESS_SHARE_MAX = 0.9


@dataclass(frozen=True)
class Profile:
    """A profile: samples, and what they count.

    Args:
        frame: columns as in mavcg.program.profiling.sample_table.SampleTable.
        kind: "samples" (time, by sampling) or "instructions" (exact counts, which are not time).
        event: the counted event.
        command: the profiled command; "" when unknown.
        board: name of the board that mapped CPU numbers to core types; "" for none.
        notes: messages from reading the file.
        offsets: as in SampleTable.
    """

    frame: "pd.DataFrame"
    kind: str
    event: str
    command: str = ""
    board: str = ""
    notes: tuple[str, ...] = ()
    offsets: Offsets = field(default_factory=dict)

    @property
    def total(self) -> float:
        """Sum of the samples column, the denominator of all shares."""
        return float(self.frame["samples"].sum())

    @property
    def records(self) -> int:
        """Number of sampling interrupts; 0 for exact counts."""
        return int(self.frame["records"].fillna(0).sum())


def profile_of(reading: SampleTable, board: Board | None, location: str) -> Profile:
    """Make a profile from a table of samples; map CPU numbers to the board's core types.

    Raises: ProfileError when a sample's CPU is not on the board, or when the program's own functions have no names.
    """
    profile = Profile(
        reading.frame, reading.kind, reading.event, reading.command, notes=reading.notes, offsets=reading.offsets
    )
    if board is not None:
        profile = on_board(profile, board, location)
    _check_named(profile, location)
    return profile


def on_board(profile: Profile, board: Board, location: str) -> Profile:
    """Return the profile with each sample's core type by the board's map of CPU numbers.

    Samples without a CPU number keep the core type they have. Raises: ProfileError for a CPU that the board lacks.
    """
    import pandas as pd

    cpus = [None if pd.isna(cpu) else int(cpu) for cpu in profile.frame["cpu"]]
    for cpu in cpus:
        if cpu is not None and board.core_of_cpu(cpu) is None:
            known = ", ".join(f"{','.join(map(str, c.cpus))}: {c.core}" for c in board.clusters)
            raise ProfileError(
                f"{location}: a sample on CPU {cpu}, which board {board.name} does not have ({known}); "
                f"give the board that it was recorded on"
            )
    recorded = [None if pd.isna(core) else str(core) for core in profile.frame["core"]]
    cores = [core if cpu is None else board.core_of_cpu(cpu) for cpu, core in zip(cpus, recorded, strict=True)]
    notes = profile.notes
    if all(cpu is None for cpu in cpus):
        notes = (
            *notes,
            f"no sample has a CPU number, so the map of board {board.name} has no effect; record with "
            f"perf record --sample-cpu (mavcg profile does)",
        )
    return replace(
        profile, frame=profile.frame.assign(core=pd.array(cores, dtype="string")), board=board.name, notes=notes
    )


def _check_named(profile: Profile, location: str) -> None:
    """Refuse a profile in which the program's own code has no function names, so that no function could be cloned."""
    frame = profile.frame
    own = frame[[not is_kernel(o) and (o == UNKNOWN or not is_system(o)) for o in frame["object"]]]
    if own.empty or profile.total <= 0:
        return
    by_object = own.groupby("object")["samples"].sum().sort_values(ascending=False)
    name, samples = str(by_object.index[0]), float(by_object.iloc[0])
    main = own[own["object"] == name]
    nameless = float(main[[is_nameless(s) for s in main["symbol"]]]["samples"].sum())
    if samples < _OWN_SHARE_MIN * profile.total or nameless < _NAMELESS_SHARE_MAX * samples:
        return
    if name in (UNKNOWN, ""):
        raise ProfileError(
            f"{location}: {nameless / profile.total:.0%} of the samples lie in no known file and have no function "
            f"name; run perf script on the machine that recorded, where the program lies, and import its text"
        )
    raise ProfileError(
        f"{location}: {nameless / samples:.0%} of the samples in {name} have no function name: it is stripped; profile "
        f"the binary as the linker wrote it (no -s, no strip), or print on a machine that has that one"
    )
