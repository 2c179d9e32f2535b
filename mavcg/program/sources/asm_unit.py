"""An assembly file among the sources of a build, with its preprocessor flags."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".s", ".S", ".sx")
_PREPROCESSOR = ("-D", "-U", "-I", "-isystem", "-iquote", "-include")
_PATHS = ("-I", "-isystem", "-iquote", "-include")


@dataclass(frozen=True)
class AsmUnit:
    """An assembly file.

    Args:
        flags: the preprocessor's options, with absolute folders.
    """

    source: Path
    flags: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The assembler's -I options for the folders of included files."""
        pairs = zip(self.flags, self.flags[1:], strict=False)
        return (f"-I{self.source.parent}", *(f"-I{folder}" for option, folder in pairs if option == "-I"))


def asm_unit(source: Path, flags: Sequence[str], folder: Path) -> AsmUnit:
    """Return the unit of an assembly file of a program.

    Args:
        flags: the program's compiler flags.
        folder: the folder for relative paths.
    """
    return AsmUnit(source, tuple(_preprocessor_flags(flags, folder)))


def _preprocessor_flags(flags: Sequence[str], folder: Path) -> Iterator[str]:
    remaining = iter(flags)
    for flag in remaining:
        option = next((name for name in _PREPROCESSOR[::-1] if flag.startswith(name)), None)
        if option is None:
            continue
        value = flag.removeprefix(option) or next(remaining, "")
        yield option
        yield str((folder / value).absolute()) if option in _PATHS else value
