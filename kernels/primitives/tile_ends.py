"""How the sums of a direct convolution's tile begin, and how they get into the output, in any layout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.emit import F32, Values, address, f32_splat, load_vector, scaled, splat, store_vector, vector
from mavcg.kernels.primitives.common import Image, finish, load_some, only_first, store_some, transposed_pieces
from mavcg.primitive import F32_BYTES, Epilogue, Layout

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Ends:
    """A tile of `scalars` by len(used) vectors of `lanes`, of which `used` are outputs.

    by_channels: the vectors run along the channels and the scalars are columns; else the other way round. channel,
    column: of the tile's first output. out, residual: at the row's first column and the image's first channel; bias: at
    the image's first channel.
    """

    b: ir.IRBuilder
    machine: Machine
    image: Image
    epilogue: Epilogue
    by_channels: bool
    scalars: int
    lanes: int
    used: tuple[int, ...]
    channel: Value
    column: Value
    out: Value
    bias: Value | None
    residual: Value | None

    def start(self) -> Values:
        """The bias of each output, by scalar, then vector."""
        b, count = self.b, len(self.used)
        if self.bias is None:
            return (f32_splat(0.0, self.lanes),) * (self.scalars * count)
        first = address(b, self.bias, scaled(b, self.channel, F32_BYTES))
        if self.by_channels:
            each = [self._bias_vector(first, v) for v in range(count)]
            return tuple(each) * self.scalars
        ones = [b.load(address(b, first, s * F32_BYTES), name="bias", align=4, typ=F32) for s in range(self.scalars)]
        return tuple(value for one in ones for value in (splat(b, one, self.lanes),) * count)

    def _bias_vector(self, first: Value, v: int) -> Value:
        if self.used[v] == 0:
            return f32_splat(0.0, self.lanes)
        place = address(self.b, first, v * self.lanes * F32_BYTES)
        return load_some(self.b, self.machine, place, self.lanes, self.used[v], "bias")

    @property
    def vectors_lie_apart(self) -> bool:
        """Whether the lanes of a vector are no neighbours in the output."""
        channels_inside = self.image.layout in (Layout.HWC, Layout.CHWC)
        return channels_inside != self.by_channels

    def finish(self, sums: Values) -> None:
        """Add the residual, activate, store."""
        count = len(self.used)
        begin = self._begin()
        rows = [list(sums[s * count : (s + 1) * count]) for s in range(self.scalars)]
        if self.vectors_lie_apart:
            for v in range(count):
                self._store_turned([row[v] for row in rows], v, begin)
            return
        for s, row in enumerate(rows):
            for v, value in enumerate(row):
                self._store(value, self._place(begin, s, v * self.lanes), self.used[v])

    def _begin(self) -> tuple[Value, Value | None]:
        """Where the tile's first output lies, and its residual."""
        b, image = self.b, self.image
        offset = b.add(
            image.channel_bytes(b, self.channel), scaled(b, self.column, image.column_step * F32_BYTES), name="tile_at"
        )
        residual = address(b, self.residual, offset) if self.residual is not None else None
        return address(b, self.out, offset), residual

    def _place(self, begin: tuple[Value, Value | None], scalar: int, lane: int) -> tuple[Value, Value | None]:
        """Where an output and its residual lie; lane: counted from the first vector's first."""
        channels, columns = (lane, scalar) if self.by_channels else (scalar, lane)
        # The tile begins at a block's first channel, or does not leave the block that it begins in.
        offset = (self.image.channel(channels) + columns * self.image.column_step) * F32_BYTES
        out, residual = begin
        return address(self.b, out, offset), address(self.b, residual, offset) if residual is not None else None

    def _store(self, value: Value, place: tuple[Value, Value | None], used: int) -> None:
        """A vector whose lanes are neighbours in the output."""
        b, lanes = self.b, self.lanes
        filled = self.image.layout is Layout.CHWC and self.by_channels  # the last block, with zeros
        taken = lanes if filled else used
        out, residual = place
        more = load_some(b, self.machine, residual, lanes, taken, "residual") if residual is not None else None
        value = finish(b, self.epilogue, value, more)
        if filled:
            value = only_first(b, value, lanes, used)
        store_some(b, self.machine, value, out, lanes, taken)

    def _store_turned(self, column: list[Value], v: int, begin: tuple[Value, Value | None]) -> None:
        """One vector of each scalar: their lanes one by one, each of which goes with its neighbours among scalars."""
        b = self.b
        for first, size in _powers(self.scalars, self.lanes):
            pieces = transposed_pieces(b, column[first : first + size])
            for lane in range(self.used[v]):
                out, residual = self._place(begin, first, v * self.lanes + lane)
                more = load_vector(b, residual, vector(F32, size), name="residual") if residual is not None else None
                store_vector(b, finish(b, self.epilogue, pieces[lane], more), out)


def _powers(count: int, most: int) -> Iterator[tuple[int, int]]:
    """(first, size): `count` cut into powers of two of at most `most`, the largest first."""
    at = 0
    while at < count:
        size = min(most, 1 << ((count - at).bit_length() - 1))
        yield at, size
        at += size
