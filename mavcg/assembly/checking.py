"""The check by execution of a tuned file: for each function from how many states both forms did the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.assembly.argument_states import DESCRIBED_LIMIT, Arguments, described_state
from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.assembly.emulation import INSTRUCTION_LIMIT, State, start_state
from mavcg.assembly.equivalence import Comparison, compare
from mavcg.errors import MavcgError

STATES = 24  # from which each function is run


@dataclass(frozen=True)
class FunctionCheck:
    """Result of the check of a function.

    states: from which both forms ended and did the same; undecided: from which nothing could be compared, and why, of
    the first. coverage: the share of the tuned function's instructions that ran, 0 to 1. difference: the first one, or
    "".
    """

    states: int
    undecided: int
    why: str = ""
    coverage: float = 0.0
    difference: str = ""

    @property
    def word(self) -> str:
        """Share of its states that the function was checked from: "all", "some" or "none"."""
        return "none" if not self.states else "some" if self.undecided else "all"


def check_functions(
    before: str,
    after: str,
    names: Sequence[str],
    arguments: Mapping[str, Sequence[Arguments]],
    file: str,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, FunctionCheck]:
    """Run functions of two assembly texts in an emulator and compare what they leave behind; stops at a difference.

    arguments: descriptions by function; one that has several is run with each of them.
    Raises: MavcgError when the emulator is not installed.
    """
    try:
        images = assemble_image(before, file), assemble_image(after, f"the tuned {file}")
    except MavcgError as error:  # what an emulator cannot load can still be right
        return {name: FunctionCheck(0, STATES, " ".join(str(error).split())) for name in names}
    checks: dict[str, FunctionCheck] = {}
    for name in names:
        progress(f"checking {name}")
        checks[name] = _check_function(*images, name, arguments.get(name, ()))
        if checks[name].difference:
            break
    return checks


def _check_function(before: CodeImage, after: CodeImage, name: str, described: Sequence[Arguments]) -> FunctionCheck:
    def start(seed: int) -> State:
        return described_state(seed, described[seed % len(described)]) if described else start_state(seed)

    limit = DESCRIBED_LIMIT if described else INSTRUCTION_LIMIT
    compared: Comparison = compare(before, after, name, range(STATES), limit=limit, start=start)
    return FunctionCheck(
        compared.agreed,
        len(compared.undecided),
        compared.undecided[0].reason if compared.undecided else "",
        compared.coverage,
        str(compared) if compared.differences else "",
    )
