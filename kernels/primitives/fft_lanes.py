"""Channels as lanes: lines of pixels between an image of any layout and a scratch of vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.emit import F32, address, const, load_vector, repeat, scaled, store_vector
from mavcg.kernels.primitives.common import Image, lanes_of, load_some
from mavcg.kernels.tiling import lanes_f32
from mavcg.primitive import F32_BYTES, Layout

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Lanes:
    """Channels of a group in vectors, each along a line of `count` pixels of a row of an image.

    Where channels are neighbours a pixel's are moved at once; else lane by lane, by way of a scratch.
    """

    b: ir.IRBuilder
    machine: Machine
    image: Image

    @property
    def lanes(self) -> int:
        """Of a vector; in CHWc all of one block."""
        return lanes_of(self.machine, self.image.block) if self.blocked else lanes_f32(self.machine)

    @property
    def blocked(self) -> bool:
        return self.image.layout is Layout.CHWC

    @property
    def dense(self) -> bool:
        """Whether channels are neighbours."""
        return self.image.channel_step == 1

    def each(self, channels: int, groups: int, body: Callable[[Value, Value, int], None]) -> None:
        """body(group, first channel in the group, lanes used); in CHWc also for vectors that only fill up a block."""
        b, lanes = self.b, self.lanes
        whole, rest = divmod(channels, lanes)
        held = -(-channels // self.image.block) * self.image.block // lanes if self.blocked else -(-channels // lanes)

        def group(index: Value) -> None:
            repeat(b, 0, whole * lanes, lambda channel: body(index, channel, lanes), "channel", lanes)
            for number in range(whole, held):
                body(index, const(number * lanes), rest if number == whole else 0)

        if groups == 1:
            group(const(0))
        else:
            repeat(b, 0, groups, group, "group")

    def vector(self, base: Value, index: Value) -> Value:
        """The address of a scratch's vector."""
        return address(self.b, base, scaled(self.b, index, self.lanes * F32_BYTES))

    def pixel(self, line: Value, index: Value) -> Value:
        """The address of a pixel of a line."""
        return address(self.b, line, scaled(self.b, index, self.image.column_step * F32_BYTES))

    def gather(self, line: Value, scratch: Value, first: Value, end: Value, used: int) -> None:
        """Pixels from first to end into the scratch's vectors of the same numbers."""
        b = self.b
        if self.dense:

            def pixel(i: Value) -> None:
                value = load_some(b, self.machine, self.pixel(line, i), self.lanes, used, "pixel")
                store_vector(b, value, self.vector(scratch, i))

            repeat(b, first, end, pixel, "pixel")
            return

        def one(source: Value, target: Value, i: Value) -> None:
            value = load_vector(b, self.pixel(source, i), F32, name="pixel")
            store_vector(b, value, self.vector(target, i))

        self.by_lane(line, scratch, first, end, used, one)

    def by_lane(
        self, line: Value, scratch: Value, first: Value, end: Value, used: int,
        body: Callable[[Value, Value, Value], None],
    ) -> None:  # fmt: skip
        """body(line of a lane's channel, scratch's lane, pixel)."""
        b = self.b

        def lane(index: Value) -> None:
            there = address(b, line, scaled(b, index, self.image.channel_step * F32_BYTES))
            here = address(b, scratch, scaled(b, index, F32_BYTES))
            repeat(b, first, end, lambda i: body(there, here, i), "pixel")

        repeat(b, 0, used, lane, "lane")
