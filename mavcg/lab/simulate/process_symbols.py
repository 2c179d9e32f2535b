"""Find a function in the files that a traced program maps: by the symbol tables of the program and of its libraries."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf, symbols_of

_PAGE = 4096


@dataclass
class FunctionFinder:
    """Addresses of a function in the files of a running program.

    found: files that define it. stripped: files without any function's name. resolved: files that choose it at load
    (STT_GNU_IFUNC), so that its symbol is not the code that runs.
    """

    function: str
    found: list[str] = field(default_factory=list)
    stripped: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    _tables: dict[Path, "_Code | None"] = field(default_factory=dict)

    def addresses(self, path: Path, start: int, offset: int) -> list[int]:
        """Return where the function begins in a mapping of a file; none for a file that is not AArch64 code.

        start: address of the mapping. offset: of its first byte in the file.
        """
        if path not in self._tables:
            self._tables[path] = self._read(path)
        code = self._tables[path]
        if code is None:
            return []
        for segment_offset, address, size in code.segments:
            if segment_offset - segment_offset % _PAGE <= offset < segment_offset + size:
                bias = start - offset - (address - segment_offset)
                return sorted({bias + value for value in code.values})
        return []

    def _read(self, path: Path) -> "_Code | None":
        """Return a file's segments and the values of the function's symbols; None for other files than AArch64 code."""
        try:
            with path.open("rb") as file:
                head = file.read(20)
            if head[:4] != b"\x7fELF" or head[18:20] != b"\xb7\0":  # e_machine: EM_AARCH64
                return None
            elf = open_elf(path)
            segments = tuple(
                (segment["p_offset"], segment["p_vaddr"], segment["p_filesz"])
                for segment in elf.iter_segments()
                if segment["p_type"] == "PT_LOAD"
            )
            return _Code(segments, self._values(elf, str(path)))
        except (OSError, MavcgError):
            return None  # the program has mapped it as data, or it is gone
        except Exception as error:  # pyelftools trusts its input: a wrong offset may end in any exception
            raise MavcgError(f"{path}: a damaged ELF file ({error}); build it again") from error

    def _values(self, elf: Any, path: str) -> tuple[int, ...]:
        values, functions = set(), 0
        for symbol in symbols_of(elf):
            kind = symbol["st_info"]["type"]
            if symbol["st_shndx"] == "SHN_UNDEF" or kind not in ("STT_FUNC", "STT_GNU_IFUNC", "STT_LOOS"):
                continue
            functions += 1
            if symbol.name != self.function:
                continue
            if kind == "STT_FUNC":
                values.add(symbol["st_value"])
            else:
                self.resolved.append(path)
        if values:
            self.found.append(path)
        if not functions:
            self.stripped.append(path)
        return tuple(values)

    def why_not_called(self) -> str:
        """Return why no call was seen, with the way out."""
        if self.found:
            return f"{', '.join(self.found)}: {self.function} was not called; give arguments with which it is"
        if self.resolved:
            return (
                f"{', '.join(sorted(set(self.resolved)))}: {self.function} is chosen when the program is loaded (an "
                "ifunc); name the function that it chooses"
            )
        stripped = f" ({', '.join(self.stripped)}: stripped of names)" if self.stripped else ""
        return f"no file of the program defines {self.function}{stripped}; name a function of its symbol tables"


@dataclass(frozen=True)
class _Code:
    """Code of a file. segments: (offset in the file, address, bytes in the file). values: of the function's symbols."""

    segments: tuple[tuple[int, int, int], ...]
    values: tuple[int, ...]
