"""Tile plans: a macro-tile for each version of a model's kernels, printed as text and parsed.

Macro-tiles change speed, never results: a sum runs over its terms in order, whatever the blocks are
(docs/design/one-answer.md).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from mavcg.errors import MavcgError
from mavcg.specs.kernel import KernelSpec

# Minimum elementary operations of one call of a kernel: a few microseconds on a fast core.
CALL_WORK = 400_000
# Minimum elementary operations of a chunk: a microsecond on a fast core; taking a chunk costs 0.1 to 0.2 microseconds.
CHUNK_WORK = 100_000


class Order(StrEnum):
    """The outer loop of a call: over rows (each block of rows reads all weights) or over channels (weights stay)."""

    ROWS = "rows-outer"
    CHANNELS = "channels-outer"


@dataclass(frozen=True)
class MacroTile:
    """The sizes of the blocks of a version of a kernel; None: everything, or the default.

    mc: rows of output pixels of a block, or rows of a product's left matrix. nc: output channels of a block. kc: terms
    of a block, between which partial sums are stored in the output; rounded down to whole contiguous runs if longer
    than one. order: of the loops over blocks. panel_channels: output channels of a panel of the library's packed
    weights; None: not packed. prefetch_distance_bytes: prefetch distance of weights within a packed panel; None: no
    prefetch. call_rows: maximum rows of work (KernelSpec.rows) of one call. nr: output channels of a register tile;
    None: chosen by the emitter's model. parts: number of parts of each row of work: a row of pixels is cut along its
    output channels, nc per part; a panel of channels is cut along the rows of pixels. The kernel's range then counts
    parts, row by row. min_chunk_rows: rows of work, or parts, of the minimum chunk; None: as many as are worth the
    overhead. call_rows, parts and min_chunk_rows are the same for all versions of a kernel. Names: Van Zee and van de
    Geijn, "BLIS", 2015.
    """

    mc: int | None = None
    nc: int | None = None
    kc: int | None = None
    order: Order = Order.ROWS
    panel_channels: int | None = None
    prefetch_distance_bytes: int | None = None
    call_rows: int = 1
    nr: int | None = None
    parts: int = 1
    min_chunk_rows: int | None = None

    def __post_init__(self) -> None:
        if self.call_rows < 1:
            raise MavcgError(f"macro-tile: call_rows is {self.call_rows}; a call has 1 row or more")
        if self.parts < 1:
            raise MavcgError(f"macro-tile: parts is {self.parts}; a row of work has 1 part or more")
        for size_field in fields(self):
            value = getattr(self, size_field.name)
            if isinstance(value, int) and value < 1:
                raise MavcgError(
                    f"macro-tile: {size_field.name} is {value}; give 1 or more, or nothing for all or none"
                )

    def __str__(self) -> str:
        return (
            f"mc={self.mc or 'all'} nc={self.nc or 'all'} kc={self.kc or 'all'} order={self.order} "
            f"panel={self.panel_channels or 'none'} prefetch={self.prefetch_distance_bytes or 'none'} "
            f"call={self.call_rows} nr={self.nr or 'chosen'} parts={self.parts} "
            f"chunk={self.min_chunk_rows or 'default'}"
        )

    @staticmethod
    def parse(text: str) -> "MacroTile":
        """Parse a macro-tile printed by str(), also in the former format, which began with rows=.

        Raises: MavcgError.
        """
        match = _MACRO.fullmatch(text) or _OLD_MACRO.fullmatch(text)
        if match is None:
            raise MavcgError(
                f"macro-tile '{text}': is not written as '{MacroTile()}'; take what MAVCG_DUMP=plan_tiles prints"
            )
        order, words = Order(match[4]), match.group(1, 2, 3, 5, 6, 7, 8, 9, 10)
        mc, nc, kc, panel, prefetch, call, nr, parts, chunk = (_number(word) for word in words)
        return MacroTile(mc, nc, kc, order, panel, prefetch, call or 0, nr, parts or 0, chunk)


def _number(word: str) -> int | None:
    """Return the number of a field's text; None for a word, and for 0, which meant None in the former format."""
    return int(word) or None if word.isdigit() else None


_MACRO = re.compile(
    r"mc=(\d+|all) nc=(\d+|all) kc=(\d+|all) order=(rows-outer|channels-outer) panel=(\d+|none) prefetch=(\d+|none) "
    r"call=(\d+) nr=(\d+|chosen) parts=(\d+) chunk=(\d+|default)"
)
_OLD_MACRO = re.compile(
    r"rows=(\d+|all) channels=(\d+|all) k=(\d+|all) order=(rows-outer|channels-outer) lanes=(\d+) prefetch=(\d+) "
    r"task=(\d+) register=(\d+|chosen) parts=(\d+) claim=(\d+|least)"
)


@dataclass(frozen=True)
class TilePlan:
    """Macro-tiles by (kernel's name, version's label); a kernel without an entry has no macro-tile."""

    tiles: Mapping[tuple[str, str], MacroTile] = field(default_factory=dict)

    def of(self, kernel: str, label: str) -> MacroTile | None:
        """Return the macro-tile of a version, or None."""
        return self.tiles.get((kernel, label))

    def __iter__(self) -> Iterator[tuple[str, str, MacroTile]]:
        for (kernel, label), macro in self.tiles.items():
            yield kernel, label, macro

    def __str__(self) -> str:
        return "".join(f"{kernel} {label} {macro}\n" for kernel, label, macro in self)

    @staticmethod
    def parse(text: str) -> "TilePlan":
        """Parse a plan printed by str(). Raises: MavcgError naming the line."""
        tiles: dict[tuple[str, str], MacroTile] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split(" ", 2)
            if len(words) != 3:
                raise MavcgError(
                    f"tile plan, line {number} '{line}': is not KERNEL VERSION MACRO-TILE; "
                    "take what MAVCG_DUMP=plan_tiles prints"
                )
            if (words[0], words[1]) in tiles:
                raise MavcgError(f"tile plan, line {number}: {words[0]} {words[1]} appears twice; keep one of them")
            tiles[words[0], words[1]] = MacroTile.parse(words[2])
        return TilePlan(tiles)

    def any_of(self, kernel: str) -> MacroTile | None:
        """Return the macro-tile of any version, or None; call_rows, parts and min_chunk_rows are the same in all
        versions."""
        return next((macro for name, _, macro in self if name == kernel), None)

    def call_rows(self, kernel: str) -> int | None:
        """Return the maximum rows of a kernel's calls, the same for all versions; None without a macro-tile."""
        macro = self.any_of(kernel)
        return macro.call_rows if macro is not None else None


def call_rows(spec: KernelSpec) -> tuple[int, int]:
    """Return (minimum rows of a chunk, call rows) of a kernel without a macro-tile.

    Calls of many rows are faster, but small chunks let all threads end at about the same time. So the minimum chunk is
    smaller than a call, except in two cases. Work that is cut along output channels is taken in whole calls, which suit
    the register tiles. If rows share one read of the weights, a chunk is one call: the rows are cut evenly into as many
    chunks of about `least_shared_rows` as there are, at least two, and a multiple of four if more.
    """
    if spec.shared_rows > 1 and spec.rows:
        parts = max(2, -(-spec.rows // spec.least_shared_rows))
        parts = parts if parts == 2 else -(-parts // 4) * 4
        return max(worthwhile_chunk_rows(spec), -(-spec.rows // parts)), spec.rows
    return chunk_rows(spec, worthwhile_call_rows(spec)), worthwhile_call_rows(spec)


def chunk_rows(spec: KernelSpec, call_rows: int, parts: int = 1) -> int:
    """Return the minimum chunk, in rows or parts, of a kernel whose calls have at most `call_rows` rows."""
    if spec.by_channels:
        return call_rows
    return min(call_rows * parts, worthwhile_chunk_rows(spec, parts))


def worthwhile_call_rows(spec: KernelSpec) -> int:
    """Return the minimum rows of work that are worth a call, at most all."""
    return _rows_of(CALL_WORK, spec)


def worthwhile_chunk_rows(spec: KernelSpec, parts: int = 1) -> int:
    """Return the default minimum chunk, in rows of work or parts: the fewest that are worth the overhead, at most all.

    All chunks of the rows have about as many: of 128 rows, of which 98 are worth it, two threads take 64 each. Their
    number is 1 or even: of three chunks one of two threads would take two.
    """
    fewest, rows = _rows_of(CHUNK_WORK, spec, parts), spec.rows * parts
    if not fewest:
        return 0
    chunks = -(-rows // fewest)
    return -(-rows // (chunks + chunks % 2 if chunks > 1 else 1))


def _rows_of(work: int, spec: KernelSpec, parts: int = 1) -> int:
    rows = spec.rows * parts
    return min(rows, max(1, -(-work * rows // max(1, spec.work))))
