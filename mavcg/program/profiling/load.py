"""Loads a profile file of any supported kind, detected by its content, not its name."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mavcg.errors import ProfileError
from mavcg.hardware.board import Board
from mavcg.program.profiling.callgrind import looks_like_callgrind, read_callgrind
from mavcg.program.profiling.packed import unpack_profile
from mavcg.program.profiling.perf_data import MAGICS, read_perf_data
from mavcg.program.profiling.perf_report import looks_like_perf_report, read_perf_report
from mavcg.program.profiling.perf_script import looks_like_perf_script, read_perf_script
from mavcg.program.profiling.profile import Profile, on_board, profile_of
from mavcg.program.profiling.profile_file import parse_profile
from mavcg.program.profiling.sample_table import SampleTable
from mavcg.program.profiling.simpleperf import looks_like_simpleperf, read_simpleperf
from mavcg.program.profiling.symbols import with_linkage_names

Reader = Callable[[Iterable[str], str], SampleTable]
Recogniser = Callable[[list[str]], bool]

# In order of decreasing strictness: perf script has the least distinctive lines.
TEXT_KINDS: tuple[tuple[str, Recogniser, Reader], ...] = (
    ("callgrind.out", looks_like_callgrind, read_callgrind),
    ("simpleperf report --csv", looks_like_simpleperf, read_simpleperf),
    ("perf report --stdio", looks_like_perf_report, read_perf_report),
    ("perf script", looks_like_perf_script, read_perf_script),
)
KIND_NAMES = ("a profile of mavcg (JSON)", "perf.data", *(name for name, _, _ in TEXT_KINDS))

_HEAD_BYTES = 1 << 18  # read to detect a file's format
_MAX_BYTES = 4 << 30


def load_profile(path: Path, board: Board | None = None, binaries: Sequence[Path] = ()) -> Profile:
    """Load a profile that `mavcg profile -o` or a profiler wrote.

    A file packed by gzip, xz or zstd is unpacked first, whatever its name.

    Args:
        board: maps CPU numbers to core types.
        binaries: programs and libraries to search for the linkage names of functions that the profiler printed
            demangled.
    Raises: ProfileError for a file that is unreadable, empty, of unknown kind, garbled, without samples or without
    function names; ToolError for a perf.data if perf is missing.
    """
    _, head = _size_and_head(path, str(path))
    with unpack_profile(path, head, _MAX_BYTES) as plain:
        return _load(plain, str(path), board, binaries)


def _size_and_head(path: Path, location: str) -> tuple[int, bytes]:
    try:
        with open(path, "rb") as file:
            return path.stat().st_size, file.read(_HEAD_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ProfileError(f"{location}: cannot be read: {why}; give a file of {', '.join(KIND_NAMES)}") from error


def _load(path: Path, location: str, board: Board | None, binaries: Sequence[Path]) -> Profile:
    """Load the profile at `path`, which is not packed. location: its name in messages."""
    size, head = _size_and_head(path, location)
    if not head.strip():
        raise ProfileError(f"{location}: empty; record again, and give a file of {', '.join(KIND_NAMES)}")
    if size > _MAX_BYTES:
        raise ProfileError(
            f"{location}: {size >> 30} GiB, more than {_MAX_BYTES >> 30}; record less often (--frequency)"
        )
    if head.startswith(MAGICS):
        return profile_of(with_linkage_names(read_perf_data(path, location), binaries), board, location)
    if b"\0" in head:
        raise _unknown_kind(location, _what_binary(head))
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        profile = parse_profile(path.read_text("utf-8", "replace").lstrip("\ufeff"), location)
        return profile if board is None else on_board(profile, board, location)
    lines = head.decode("utf-8", "replace").splitlines()
    for _, recognise, read in TEXT_KINDS:
        if recognise(lines):
            with open(path, encoding="utf-8", errors="replace", newline="\n") as text:
                reading = read(text, location)
            return profile_of(with_linkage_names(reading, binaries), board, location)
    first = next(line.strip() for line in [*lines, "-"] if line.strip())
    raise _unknown_kind(location, f"its first line reads {first[:60]!r}")


def _unknown_kind(location: str, content: str) -> ProfileError:
    return ProfileError(
        f"{location}: not a profile that mavcg knows: {content}; tried {', '.join(KIND_NAMES)}; "
        f"docs/profiling.md says how to make one"
    )


def _what_binary(head: bytes) -> str:
    if head.startswith(b"\x7fELF"):
        return "it is a program or library (to profile it: mavcg profile -- ./PROGRAM ARGS)"
    return f"it is binary and starts with {head[:8].hex(' ')}"
