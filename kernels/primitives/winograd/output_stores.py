"""Emitter of the stores of a Winograd tile's outputs, with residual and activation.

A tile inside of the image is stored in place if its vector of channels is whole. Any other tile is stored to a patch in
the scratch, of which the part inside of the image is copied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import unary
from mavcg.kernels.builder.emit import TYPES, address, const, repeat, scale_index
from mavcg.kernels.builder.lanes import load_vector, store_vector
from mavcg.kernels.builder.run_numbers import multiple
from mavcg.kernels.primitives.common import lanes_of, load_partial, store_partial, transpose_vectors, zero_other_lanes
from mavcg.kernels.primitives.winograd.tiles import Located, Tiles
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value

# Activations of a few operations, which are unrolled. Others are emitted in a loop over the rows of a square: unrolled
# for all outputs they would be most of the kernel's code and take the registers of the sums.
LIGHT = ("", "relu", "clip", "leaky_relu", "abs", "neg", "hard_sigmoid", "hard_swish")


@dataclass(frozen=True)
class WinogradEpilogue:
    """The epilogue of the outputs. bias: pointer to the first channel's bias. residual: the image that is added."""

    bias: Value | None
    residual: Located | None
    act: str
    act_args: tuple[float, ...]


@dataclass(frozen=True)
class TileVector:
    """A vector of channels of a tile's outputs.

    out, residual: pointers to its first pixel. rows, columns: numbers of the tile's rows and columns inside of the
    image.
    """

    out: Value
    residual: Value | None
    rows: Value
    columns: Value
    used: Value  # channels of the vector, from 0 to lanes


class OutputStores:
    """Emitter of the stores of a kernel's outputs. patch: pointer to scratch of tiles.patch_bytes."""

    def __init__(
        self, b: ir.IRBuilder, machine: Machine, tiles: Tiles, image: Located, epilogue: WinogradEpilogue, patch: Value
    ) -> None:
        self.b, self.machine, self.tiles, self.image, self.epilogue = b, machine, tiles, image, epilogue
        self.residual = epilogue.residual
        blocks = [i.block for i in (image, self.residual) if i is not None and i.block]
        self.lanes = lanes_of(machine, min(blocks)) if blocks else tiles.vector_lanes(machine)
        self.item, self.element = tiles.item_bytes, TYPES[tiles.dtype]
        self.vector = ir.VectorType(self.element, self.lanes)
        self.zeros = ir.Constant(self.vector, [0.0] * self.lanes)
        self.pixel = self.lanes * self.item
        self.patch = patch
        self.vectorised = image.along_channels and (self.residual is None or self.residual.along_channels)

    def store_whole(self, target: TileVector, values: list[list[Value]]) -> None:
        """Emit the stores of a tile inside of the image whose vector of channels is whole."""
        (self.store_all if self.vectorised else self.store_transposed)(target, values)

    def finish_value(self, value: Value, residual: Value | None) -> Value:
        """Return activation(value + residual)."""
        b = self.b
        if residual is not None:
            value = b.fadd(value, residual, name="with_residual")
        act, dtype = self.epilogue.act, self.tiles.dtype
        return unary(b, act, self.epilogue.act_args, dtype, value) if act else value

    def pixel_address(
        self, image: Located | None, base: Value | None, i: Value | int, j: Value | int, lane: Value | int = 0
    ) -> Value | None:
        """Return a pointer i rows, j columns and `lane` channels after base; None if there is no image."""
        if image is None or base is None:
            return None
        b = self.b
        _, down, right, across = (s * self.item for s in image.view.strides)
        pointer = base
        for index, step in ((i, down), (j, right), (lane, self.item if image.block else across)):
            pointer = address(b, pointer, multiple(b, index, step))
        return pointer

    def by_rows(self, values: list[list[Value]], store_row: Callable[[Value | int, list[Value]], None]) -> None:
        """Emit store_row(number, outputs) for each row of a tile, in a loop if the activation is long."""
        if self.epilogue.act in LIGHT or len(values) == 1:
            for i, row in enumerate(values):
                store_row(i, row)
            return
        self.to_patch(values)
        m = self.tiles.m
        repeat(self.b, 0, m, lambda i: store_row(i, [self.from_patch(i, const(j)) for j in range(m)]), "row")

    def store_all(self, target: TileVector, values: list[list[Value]]) -> None:
        """Emit the stores of a tile inside of the image, to a layout with contiguous channels."""

        def store_row(i: Value | int, row: list[Value]) -> None:
            for j, value in enumerate(row):
                source = self.pixel_address(self.residual, target.residual, i, j)
                residual = load_vector(self.b, source, self.vector, name="residual") if source is not None else None
                store_vector(
                    self.b, self.finish_value(value, residual), self.pixel_address(self.image, target.out, i, j)
                )

        self.by_rows(values, store_row)

    def to_patch(self, values: list[list[Value]]) -> None:
        """Emit the stores of a tile's outputs to the patch, before residual and activation."""
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                store_vector(
                    self.b, value, address(self.b, self.patch, (i * self.tiles.m + j) * self.pixel), align=self.item
                )

    def patch_at(self, i: Value, j: Value) -> Value:
        """Emit the address of an output in the patch."""
        b = self.b
        return address(
            b, self.patch, b.add(scale_index(b, i, self.tiles.m * self.pixel), scale_index(b, j, self.pixel))
        )

    def from_patch(self, i: Value, j: Value) -> Value:
        """Return an output that to_patch stored."""
        return load_vector(self.b, self.patch_at(i, j), self.vector, name="result", align=self.item)

    def store_transposed(self, target: TileVector, values: list[list[Value]]) -> None:
        """Emit the stores of a tile inside of the image, transposed in registers for a layout with contiguous
        columns."""
        b, lanes = self.b, self.lanes
        neighbours = all(i is None or i.view.strides[2] == 1 for i in (self.image, self.residual))
        largest = lanes if neighbours else 1

        def store_row(i: Value | int, row: list[Value]) -> None:
            at = 0
            while at < len(row):
                size = min(largest, 1 << ((len(row) - at).bit_length() - 1))
                for lane, piece in enumerate(transpose_vectors(b, row[at : at + size])):
                    source = self.pixel_address(self.residual, target.residual, i, at, lane)
                    residual = load_vector(b, source, piece.type, name="residual") if source is not None else None
                    store_vector(
                        b, self.finish_value(piece, residual), self.pixel_address(self.image, target.out, i, at, lane)
                    )
                at += size

        self.by_rows(values, store_row)

    def store_partial(self, target: TileVector, values: list[list[Value]], whole: Value) -> None:
        """Emit the stores of the part of a tile inside of the image, through the patch."""
        b, tiles, lanes = self.b, self.tiles, self.lanes
        self.to_patch(values)

        def every(body: Callable[[Value, Value], None]) -> None:
            rows, columns = target.rows, target.columns
            repeat(b, const(0), rows, lambda i: repeat(b, const(0), columns, lambda j: body(i, j), "j"), "i")

        def pixel(i: Value, j: Value, used: int) -> None:
            value = self.from_patch(i, j)
            source = self.pixel_address(self.residual, target.residual, i, j)
            residual = None
            if source is not None:
                residual = (
                    load_partial(b, self.machine, source, lanes, used, "residual", self.element) if used else self.zeros
                )
            value = self.finish_value(value, residual)
            pointer = self.pixel_address(self.image, target.out, i, j)
            if self.image.block:
                store_vector(b, zero_other_lanes(b, value, lanes, used), pointer)
            elif used:
                store_partial(b, self.machine, value, pointer, lanes, used)

        def single(i: Value, j: Value, lane: Value) -> None:
            value = b.load(
                address(b, self.patch_at(i, j), scale_index(b, lane, self.item)),
                name="result",
                align=self.item,
                typ=self.element,
            )
            source = self.pixel_address(self.residual, target.residual, i, j, lane)
            residual = (
                b.load(source, name="residual", align=self.item, typ=self.element) if source is not None else None
            )
            b.store(
                self.finish_value(value, residual),
                self.pixel_address(self.image, target.out, i, j, lane),
                align=self.item,
            )

        if not self.vectorised:
            repeat(b, const(0), target.used, lambda lane: every(lambda i, j: single(i, j, lane)), "lane")
            if self.image.block:
                zero = ir.Constant(self.element, 0.0)

                def fill(lane: Value) -> None:
                    every(
                        lambda i, j: (
                            b.store(zero, self.pixel_address(self.image, target.out, i, j, lane), align=self.item)
                            and None
                        )
                    )

                repeat(b, target.used, const(lanes), fill, "filled")
            return
        tail = tiles.out_ch % lanes
        with b.if_else(whole) as (full, not_full):
            with full:
                every(lambda i, j: pixel(i, j, lanes))
            with not_full, b.if_else(b.icmp_signed("!=", target.used, const(0))) as (part, empty):
                with part:
                    if tail:
                        every(lambda i, j: pixel(i, j, tail))
                with empty:
                    if self.image.block:
                        every(lambda i, j: pixel(i, j, 0))
