"""A plan's macro-tiles: what a kernel's version takes at once of rows, channels and terms, and in which order.

They change speed, never results: a sum runs over its terms in order whatever the blocks (docs/design/one-answer.md).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mavcg.errors import MavcgError
from mavcg.kernel import KernelSpec

# Elementary operations of a task, which is what one call of a kernel gets at most: some microseconds on a fast core.
TASK_WORK = 400_000
# And those that a thread claims at least: a microsecond on a fast core, where a claim takes a tenth or two of one.
CLAIM_WORK = 100_000


class Order(StrEnum):
    """What the outermost loop of a task runs over: rows (each passes all weights) or channels (weights stay)."""

    ROWS = "rows-outer"
    CHANNELS = "channels-outer"


@dataclass(frozen=True)
class MacroTile:
    """What stays in the caches while a kernel's version works on it; 0 stands for all there is.

    rows: rows of output pixels of a block, or of the left side of a product. out_channels: of a block. k_block: terms
    of each sum for which all of a block is computed before the next terms; between them partial sums lie in the output.
    It is rounded down to whole runs of neighbours where it is longer than one. order: of blocks. pack_lanes: output
    channels in a panel of packed weights, as the library's packing has it; 0 where nothing is packed. prefetch_bytes:
    how far ahead of its use in a panel a weight is asked for. task_rows: rows of work (KernelSpec.rows) of a task.
    tile_channels: output channels of a register tile; 0: the emitter's model chooses.
    parts: into how many each row of work is cut: a row of pixels along its output channels, `out_channels` to a part; a
    panel of channels along the rows of pixels. The kernel then counts its range in parts, those of a row one after the
    other. claim_rows: rows of work, or parts of them, that a thread claims at least; 0: what is worth its while.
    task_rows, parts and claim_rows are the same for all versions of a kernel.
    """

    rows: int = 0
    out_channels: int = 0
    k_block: int = 0
    order: Order = Order.ROWS
    pack_lanes: int = 0
    prefetch_bytes: int = 0
    task_rows: int = 1
    tile_channels: int = 0
    parts: int = 1
    claim_rows: int = 0

    def __post_init__(self) -> None:
        counts = ("rows", "out_channels", "k_block", "pack_lanes", "prefetch_bytes", "tile_channels", "claim_rows")
        for name in counts:
            if getattr(self, name) < 0:
                raise MavcgError(f"macro-tile: {name} is {getattr(self, name)}; give 0 (all, or none) or more")
        if self.task_rows < 1:
            raise MavcgError(f"macro-tile: task_rows is {self.task_rows}; a task has 1 row or more")
        if self.parts < 1:
            raise MavcgError(f"macro-tile: parts is {self.parts}; a row of work has 1 part or more")

    def __str__(self) -> str:
        return (
            f"rows={self.rows or 'all'} channels={self.out_channels or 'all'} k={self.k_block or 'all'} "
            f"order={self.order} lanes={self.pack_lanes} prefetch={self.prefetch_bytes} task={self.task_rows} "
            f"register={self.tile_channels or 'chosen'} parts={self.parts} claim={self.claim_rows or 'least'}"
        )

    @staticmethod
    def parse(text: str) -> "MacroTile":
        """What str() printed. Raises: MavcgError."""
        match = _MACRO.fullmatch(text)
        if match is None:
            raise MavcgError(
                f"macro-tile '{text}': is not written as '{MacroTile()}'; take what MAVCG_DUMP=plan_tiles prints"
            )
        words = match.group(1, 2, 3, 5, 6, 7, 8, 9, 10)
        numbers = [0 if word in ("all", "chosen", "least") else int(word) for word in words]
        rows, channels, k, lanes, prefetch, task, register, parts, claim = numbers
        return MacroTile(rows, channels, k, Order(match[4]), lanes, prefetch, task, register, parts, claim)


_MACRO = re.compile(
    r"rows=(\d+|all) channels=(\d+|all) k=(\d+|all) order=(rows-outer|channels-outer) lanes=(\d+) prefetch=(\d+) "
    r"task=(\d+) register=(\d+|chosen) parts=(\d+) claim=(\d+|least)"
)


@dataclass(frozen=True)
class TilePlan:
    """(kernel's name, version's label) -> its macro-tile; a kernel that is not there has none to choose."""

    tiles: Mapping[tuple[str, str], MacroTile] = field(default_factory=dict)

    def of(self, kernel: str, label: str) -> MacroTile | None:
        """The macro-tile of a version."""
        return self.tiles.get((kernel, label))

    def __iter__(self) -> Iterator[tuple[str, str, MacroTile]]:
        for (kernel, label), macro in self.tiles.items():
            yield kernel, label, macro

    def __str__(self) -> str:
        return "".join(f"{kernel} {label} {macro}\n" for kernel, label, macro in self)

    @staticmethod
    def parse(text: str) -> "TilePlan":
        """What str() printed. Raises: MavcgError naming the line."""
        found: dict[tuple[str, str], MacroTile] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split(" ", 2)
            if len(words) != 3:
                raise MavcgError(
                    f"tile plan, line {number} '{line}': is not KERNEL VERSION MACRO-TILE; "
                    "take what MAVCG_DUMP=plan_tiles prints"
                )
            if (words[0], words[1]) in found:
                raise MavcgError(f"tile plan, line {number}: {words[0]} {words[1]} is there twice; keep one of them")
            found[words[0], words[1]] = MacroTile.parse(words[2])
        return TilePlan(found)

    def any_of(self, kernel: str) -> MacroTile | None:
        """A version's macro-tile: task_rows, parts and claim_rows are the same in all; None where there is none."""
        return next((macro for name, _, macro in self if name == kernel), None)

    def task_rows(self, kernel: str) -> int | None:
        """Of a kernel's tasks, the same for all its versions; None where the plan has nothing of it."""
        macro = self.any_of(kernel)
        return macro.task_rows if macro is not None else None


def least_task_rows(spec: KernelSpec) -> int:
    """Rows of work that a task takes at least: enough to be worth a call, and at most all."""
    return _rows_of(TASK_WORK, spec)


def least_claim_rows(spec: KernelSpec, parts: int = 1) -> int:
    """Rows of work, each in so many parts, or parts of them, that a thread claims at least: worth it, at most all."""
    return _rows_of(CLAIM_WORK, spec, parts)


def _rows_of(work: int, spec: KernelSpec, parts: int = 1) -> int:
    rows = spec.rows * parts
    return min(rows, max(1, -(-work * rows // max(1, spec.work))))
