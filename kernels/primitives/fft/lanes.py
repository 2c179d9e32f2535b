"""Emitter of copies between lines of pixels of an image in any layout and a scratch of vectors of channels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, address, const, load_vector, repeat, scale_index, store_vector
from mavcg.kernels.gemm.register_tile import lanes_f32
from mavcg.kernels.primitives.common import Image, lanes_of, load_partial
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Layout

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class ChannelLanes:
    """Emitter of copies of a group's channels between a line of pixels of an image and a scratch of vectors.

    If channels are contiguous in the image, a pixel's vector is moved at once, else lane by lane.
    """

    b: ir.IRBuilder
    machine: Machine
    image: Image

    @property
    def lanes(self) -> int:
        """Number of lanes of a vector, which lie in one block in CHWc."""
        return lanes_of(self.machine, self.image.block) if self.blocked else lanes_f32(self.machine)

    @property
    def blocked(self) -> bool:
        """True for CHWc."""
        return self.image.layout is Layout.CHWC

    @property
    def dense(self) -> bool:
        """True if channels are contiguous in memory."""
        return self.image.channel_step == 1

    def over_vectors(self, channels: int, groups: int, body: Callable[[Value, Value, int], None]) -> None:
        """Emit body(group, first channel in the group, used lanes) for all vectors of all groups' channels.

        In CHWc also for vectors that only pad a block, with 0 used lanes.
        """
        b, lanes = self.b, self.lanes
        whole, rest = divmod(channels, lanes)
        vectors = (
            -(-channels // self.image.block) * self.image.block // lanes if self.blocked else -(-channels // lanes)
        )

        def group(index: Value) -> None:
            repeat(b, 0, whole * lanes, lambda channel: body(index, channel, lanes), "channel", lanes)
            for number in range(whole, vectors):
                body(index, const(number * lanes), rest if number == whole else 0)

        if groups == 1:
            group(const(0))
        else:
            repeat(b, 0, groups, group, "group")

    def vector(self, base: Value, index: Value) -> Value:
        """Emit the address of a vector of a scratch."""
        return address(self.b, base, scale_index(self.b, index, self.lanes * F32_BYTES))

    def pixel(self, line: Value, index: Value) -> Value:
        """Emit the address of a pixel of a line."""
        return address(self.b, line, scale_index(self.b, index, self.image.column_step * F32_BYTES))

    def gather(self, line: Value, scratch: Value, first: Value, end: Value, used: int) -> None:
        """Emit the copy of pixels first .. end - 1 into the scratch vectors of the same numbers."""
        b = self.b
        if self.dense:

            def pixel(i: Value) -> None:
                value = load_partial(b, self.machine, self.pixel(line, i), self.lanes, used, "pixel")
                store_vector(b, value, self.vector(scratch, i))

            repeat(b, first, end, pixel, "pixel")
            return

        def element(source: Value, target: Value, i: Value) -> None:
            value = load_vector(b, self.pixel(source, i), F32, name="pixel")
            store_vector(b, value, self.vector(target, i))

        self.by_lane(line, scratch, first, end, used, element)

    def by_lane(
        self,
        line: Value,
        scratch: Value,
        first: Value,
        end: Value,
        used: int,
        body: Callable[[Value, Value, Value], None],
    ) -> None:
        """Emit body(pointer to a lane's channel, pointer to the lane in the scratch, pixel) for pixels first .. end -
        1."""
        b = self.b

        def lane(index: Value) -> None:
            channel_line = address(b, line, scale_index(b, index, self.image.channel_step * F32_BYTES))
            scratch_lane = address(b, scratch, scale_index(b, index, F32_BYTES))
            repeat(b, first, end, lambda i: body(channel_line, scratch_lane, i), "pixel")

        repeat(b, 0, used, lane, "lane")
