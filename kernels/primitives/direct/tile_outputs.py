"""Tile prologue and epilogue of direct convolutions: initial sums, and stores into an output of any layout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import F32, Values, address, scale_index, vector
from mavcg.kernels.builder.lanes import f32_splat, load_vector, splat, store_vector
from mavcg.kernels.primitives.common import Image, load_partial, store_partial, transpose_vectors, zero_other_lanes
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class DirectTileOutputs:
    """Emitter of the prologue and epilogue of a tile of `scalars` by len(used) vectors; used: lanes that are outputs.

    by_channels: vectors run along the channels, and scalars are columns; else vice versa. channel, column: position of
    the tile's first output. out, residual: pointers to the row's first column in the image's first channel. bias:
    pointer to the image's first channel.
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

    def initial_sums(self) -> Values:
        """Return the bias of each output, by scalar, then vector; zeros without a bias."""
        b, count = self.b, len(self.used)
        if self.bias is None:
            return (f32_splat(0.0, self.lanes),) * (self.scalars * count)
        first = address(b, self.bias, scale_index(b, self.channel, F32_BYTES))
        if self.by_channels:
            vectors = [self._bias_vector(first, v) for v in range(count)]
            return tuple(vectors) * self.scalars
        biases = [b.load(address(b, first, s * F32_BYTES), name="bias", align=4, typ=F32) for s in range(self.scalars)]
        return tuple(value for bias in biases for value in (splat(b, bias, self.lanes),) * count)

    def _bias_vector(self, first: Value, v: int) -> Value:
        if self.used[v] == 0:
            return f32_splat(0.0, self.lanes)
        pointer = address(self.b, first, v * self.lanes * F32_BYTES)
        return load_partial(self.b, self.machine, pointer, self.lanes, self.used[v], "bias")

    @property
    def vectors_are_strided(self) -> bool:
        """True if the lanes of a vector are not contiguous in the output."""
        channels_inside = self.image.layout in (Layout.HWC, Layout.CHWC)
        return channels_inside != self.by_channels

    def store(self, sums: Values) -> None:
        """Add the residual, apply the activation, and store the outputs; sums: by scalar, then vector."""
        count = len(self.used)
        begin = self._first_output()
        rows = [list(sums[s * count : (s + 1) * count]) for s in range(self.scalars)]
        if self.vectors_are_strided:
            for v in range(count):
                self._store_transposed([row[v] for row in rows], v, begin)
            return
        for s, row in enumerate(rows):
            for v, value in enumerate(row):
                self._store(value, self._output(begin, s, v * self.lanes), self.used[v])

    def _first_output(self) -> tuple[Value, Value | None]:
        """Emit the pointers to the tile's first output and to its residual."""
        b, image = self.b, self.image
        offset = b.add(
            image.channel_bytes(b, self.channel),
            scale_index(b, self.column, image.column_step * F32_BYTES),
            name="tile_at",
        )
        residual = address(b, self.residual, offset) if self.residual is not None else None
        return address(b, self.out, offset), residual

    def _output(self, begin: tuple[Value, Value | None], scalar: int, lane: int) -> tuple[Value, Value | None]:
        """Emit the pointers to an output and to its residual; lane: counted from the first lane of the first vector."""
        channels, columns = (lane, scalar) if self.by_channels else (scalar, lane)
        # The tile begins at a block's first channel, or lies within a block.
        offset = (self.image.channel(channels) + columns * self.image.column_step) * F32_BYTES
        out, residual = begin
        return address(self.b, out, offset), address(self.b, residual, offset) if residual is not None else None

    def _store(self, value: Value, pointer: tuple[Value, Value | None], used: int) -> None:
        """Emit the store of a vector whose lanes are contiguous in the output."""
        b, lanes = self.b, self.lanes
        filled = self.image.layout is Layout.CHWC and self.by_channels  # zeros pad the last block
        taken = lanes if filled else used
        out, residual = pointer
        addend = load_partial(b, self.machine, residual, lanes, taken, "residual") if residual is not None else None
        value = finish(b, self.epilogue, value, addend)
        if filled:
            value = zero_other_lanes(b, value, lanes, used)
        store_partial(b, self.machine, value, out, lanes, taken)

    def _store_transposed(self, column: list[Value], v: int, begin: tuple[Value, Value | None]) -> None:
        """Emit the stores of one vector of each scalar, transposed: one lane of all scalars is a vector of the
        output."""
        b = self.b
        for first, size in _powers(self.scalars, self.lanes):
            pieces = transpose_vectors(b, column[first : first + size])
            for lane in range(self.used[v]):
                out, residual = self._output(begin, first, v * self.lanes + lane)
                addend = load_vector(b, residual, vector(F32, size), name="residual") if residual is not None else None
                store_vector(b, finish(b, self.epilogue, pieces[lane], addend), out)


def _powers(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (first, size) of the pieces of `count`, powers of two of at most `most`, the largest first."""
    at = 0
    while at < count:
        size = min(most, 1 << ((count - at).bit_length() - 1))
        yield at, size
        at += size
