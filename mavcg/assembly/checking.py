"""The check by execution of a tuned file: runs each function before and after tuning from the same start states."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mavcg.assembly.argument_states import DESCRIBED_LIMIT, Arguments, described_state
from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.assembly.emulation import INSTRUCTION_LIMIT, State, start_state
from mavcg.assembly.equivalence import Comparison, RunLimits, compare
from mavcg.errors import MavcgError
from mavcg.files.store import NOTHING_KEPT, EntryStore

STATES = 24  # start states per function


@dataclass(frozen=True)
class FunctionCheck:
    """The result of the check of a function.

    states: number of start states from which both forms ended with equal results. undecided: number of states whose
    runs could not be compared. why: the reason for the first of these. coverage: fraction of the tuned function's
    instructions that ran. difference: the first one, or "".
    """

    states: int
    undecided: int
    why: str = ""
    coverage: float = 0.0
    difference: str = ""

    @property
    def word(self) -> str:
        """Summary of the start states from which the function was checked: "all", "some" or "none"."""
        return "none" if not self.states else "some" if self.undecided else "all"


def check_functions(
    before: str,
    after: str,
    names: Sequence[str],
    arguments: Mapping[str, Sequence[Arguments]],
    file: str,
    progress: Callable[[str], None] = lambda text: None,
    store: EntryStore = NOTHING_KEPT,
) -> dict[str, FunctionCheck]:
    """Run functions of two assembly texts in an emulator and compare the results; stop at the first difference.

    arguments: function -> descriptions of its arguments, each of which is used. store: keeps what is decided as soon as
    it is, so that a check that was interrupted goes on where it ended; one that keeps nothing checks all again.
    Raises: MavcgError when the emulator is not installed.
    """
    try:
        images = assemble_image(before, file), assemble_image(after, f"the tuned {file}")
    except MavcgError as error:  # what an emulator cannot load can still be right
        return {name: FunctionCheck(0, STATES, " ".join(str(error).split())) for name in names}
    checks: dict[str, FunctionCheck] = {}
    texts = hashlib.sha256(f"{_checker()}\0{before}\0{after}".encode(errors="surrogateescape")).hexdigest()
    for number, name in enumerate(names, 1):
        described = arguments.get(name, ())
        key = f"check {STATES} {texts} {name} {described!r}"
        kept = store.read(key, FunctionCheck)
        progress(f"checking {name}, {number} of {len(names)}{', decided by an earlier check' if kept else ''}")
        checks[name] = kept or _check_function(*images, name, described)
        if checks[name].difference:
            break
        if not kept:
            store.write(key, checks[name])
    return checks


@cache
def _checker() -> str:
    """Return a digest of what decides: the code that runs and compares functions, and the emulator's version."""
    with suppress(PackageNotFoundError):
        digest = hashlib.sha256(version("unicorn").encode())
        for path in sorted(Path(__file__).parent.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()
    return ""


def _check_function(before: CodeImage, after: CodeImage, name: str, described: Sequence[Arguments]) -> FunctionCheck:
    def start(seed: int) -> State:
        return described_state(seed, described[seed % len(described)]) if described else start_state(seed)

    limits = RunLimits(DESCRIBED_LIMIT if described else INSTRUCTION_LIMIT)
    compared: Comparison = compare(before, after, name, range(STATES), limits=limits, start=start)
    return FunctionCheck(
        compared.agreed,
        len(compared.undecided),
        compared.undecided[0].reason if compared.undecided else "",
        compared.coverage,
        str(compared) if compared.differences else "",
    )
