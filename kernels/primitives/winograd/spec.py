"""Specs of the kernels of Winograd convolutions: the single kernel, and the three stages."""

from dataclasses import dataclass
from math import ceil

from mavcg.kernels.primitives.winograd.planes import Planes, input_planes, products
from mavcg.kernels.primitives.winograd.tiles import SLACK_TILES, Located, Tiles
from mavcg.specs.kernel import KernelSpec, Machine, arithmetic_of
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, TileProduct, VectorWork, WeightReads, WorkCounts, vector_work

# Tiles for which a chunk reads all weights, as long as there are more threads than long blocks.
TILES_OF_A_CHUNK = 36


def _plane_elements(tiles: Tiles, channels: int, machine: Machine) -> int:
    """Return the number of elements of an image's transformed tiles, whose vectors are full."""
    return tiles.planes * tiles.count * max(channels, tiles.vector_lanes(machine))


def _plane_bytes(tiles: Tiles, machine: Machine, read: bool = True, written: bool = True) -> OperandBytes:
    """Return the bytes of transformed inputs, of sums, or of both; all are touched between two uses."""
    sides = [_plane_elements(tiles, channels, machine) * tiles.item_bytes for channels in (tiles.in_ch, tiles.out_ch)]
    return OperandBytes(sides[0] * read + sides[1] * written, sum(sides))


def _transform_work(tiles: Tiles, image: Located, channels: int, machine: Machine) -> tuple[VectorWork, ...]:
    """Return the work of transforming an image's tiles, with its transpose if its channels are not contiguous."""
    per_element = tiles.t * (2 if tiles.two_d else 1)
    transposed = 0 if image.along_channels else image.view.elements
    elements = image.view.shape[0] * _plane_elements(tiles, channels, machine)
    return vector_work(("transform", per_element * elements), ("turn_winograd", transposed))


@spec_format("winograd")
@dataclass(frozen=True)
class Winograd(KernelSpec):
    """act(bias + convolution + residual) of f32 or f16 images in a single kernel, block by block of tiles.

    block: tiles that are transformed, multiplied and transformed back together; whole rows of tiles unless two_d.
    Operands: x, weights [planes, panels, terms, lanes], out, bias?, residual?. A row of work is a tile, or, unless
    two_d, a row of tiles.
    """

    tiles: Tiles
    x: Located
    out: Located
    residual: Located | None
    block: int
    bias: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        dimensions = 2 if self.tiles.two_d else 1
        return f"winograd_{dimensions}d_f{self.tiles.m}_k{self.tiles.k}{self.tiles.type_text}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(
            self.x.layout_text, self.out.layout_text, sizes_text(*self.out.view.shape), self.tiles.window_text
        )

    @property
    def macs(self) -> int:
        return self.out.view.elements * self.tiles.k * self.tiles.k_h * self.tiles.in_ch

    @property
    def multiply_adds(self) -> int:
        tiles = self.tiles
        return self.out.view.shape[0] * (tiles.macs + tiles.input_operations + tiles.output_operations)

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.tiles.dtype)

    @property
    def compute_bound(self) -> bool:
        return True

    @property
    def rows(self) -> int:
        return self.out.view.shape[0] * (self.tiles.count // self.tiles.unit) if self.out.view.elements else 0

    @property
    def shared_rows(self) -> int:
        return -(-self.block // self.tiles.unit)

    @property
    def least_shared_rows(self) -> int:
        return -(-min(self.block, TILES_OF_A_CHUNK) // self.tiles.unit) if self.tiles.two_d else self.shared_rows

    @property
    def inputs(self) -> Planes:
        """The transformed inputs, which follow the patch in the scratch."""
        return input_planes(self.tiles, self.block, SLACK_TILES)

    @property
    def sums(self) -> Planes:
        """The sums, which follow the transformed inputs in the scratch."""
        return products(self.tiles, self.block, SLACK_TILES)

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes + self.inputs.bytes + self.sums.bytes

    @property
    def work(self) -> int:
        return 2 * self.out.view.shape[0] * self.tiles.macs

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        tiles, images = self.tiles, self.out.view.shape[0]
        passes = images * tiles.count / self.block
        product = TileProduct("product_winograd", self.block, tiles.out_ch, tiles.terms, tiles.planes * passes)
        every = _plane_bytes(tiles, machine).size
        return WorkCounts(
            products=(product,),
            vectors=(
                *_transform_work(tiles, self.x, self.x.stored_channels, machine),
                *_transform_work(tiles, self.out, tiles.out_ch, machine),
            ),
            read=OperandBytes(self.x.view.elements * self.tiles.item_bytes),
            written=OperandBytes(self.out.view.elements * self.tiles.item_bytes),
            within=OperandBytes(2 * images * every, every * self.block / tiles.count),
            weights=WeightReads(tiles.planes * tiles.terms * tiles.out_ch * tiles.item_bytes, ceil(passes)),
        )


# Approximate elementary operations of a transform per element of a plane: additions, a load and a store.
TRANSFORM_WORK = 8


@spec_format("winograd_input")
@dataclass(frozen=True)
class WinogradInput(KernelSpec):
    """The transform of all tiles' inputs. Operands: x, inputs. A row of work is a tile, or, unless two_d, a row of
    tiles."""

    tiles: Tiles
    x: Located

    @property
    def family(self) -> str:
        return f"winograd_input_f{self.tiles.m}_k{self.tiles.k}{self.tiles.type_text}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.x.layout_text, sizes_text(*self.x.view.shape), self.tiles.window_text)

    @property
    def inputs(self) -> Planes:
        """The transformed inputs, which the kernel writes."""
        return input_planes(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.inputs.tiles // self.tiles.unit if self.x.view.elements else 0

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes

    @property
    def multiply_adds(self) -> int:
        return self.tiles.input_operations

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.tiles.dtype)

    @property
    def work(self) -> int:
        return TRANSFORM_WORK * self.inputs.tiles * self.inputs.count * self.tiles.in_ch

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        return WorkCounts(
            vectors=_transform_work(self.tiles, self.x, self.x.stored_channels, machine),
            read=OperandBytes(self.x.view.elements * self.tiles.item_bytes),
            written=_plane_bytes(self.tiles, machine, written=False),
        )


@spec_format("winograd_products")
@dataclass(frozen=True)
class WinogradProducts(KernelSpec):
    """The products of all tiles. Operands: inputs, weights, sums. A row of work is a chunk of a plane's output
    channels."""

    tiles: Tiles
    chunk: int

    @property
    def family(self) -> str:
        return f"winograd_products_f{self.tiles.m}_k{self.tiles.k}{self.tiles.type_text}"

    @property
    def symbol_shape(self) -> str:
        t = self.tiles
        return shape_text(sizes_text(t.out_h, t.out_w, t.out_ch), t.window_text)

    @property
    def macs(self) -> int:
        t = self.tiles
        return t.out_h * t.out_w * t.out_ch * t.k * t.k_h * t.in_ch

    @property
    def multiply_adds(self) -> int:
        return self.tiles.macs

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.tiles.dtype)

    @property
    def disjoint_reads(self) -> bool:
        return True

    @property
    def inputs(self) -> Planes:
        """The transformed inputs, which the kernel reads."""
        return input_planes(self.tiles, self.tiles.count)

    @property
    def sums(self) -> Planes:
        """The sums, which the kernel writes."""
        return products(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.tiles.planes * -(-self.tiles.out_ch // self.chunk)

    @property
    def work(self) -> int:
        return 2 * self.tiles.macs

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        t = self.tiles
        return WorkCounts(
            products=(TileProduct("product_winograd_staged", t.count, t.out_ch, t.terms, t.planes),),
            read=_plane_bytes(t, machine, written=False),
            written=_plane_bytes(t, machine, read=False),
            weights=WeightReads(t.planes * t.terms * t.out_ch * t.item_bytes, divided=True),
        )


@spec_format("winograd_output")
@dataclass(frozen=True)
class WinogradOutput(KernelSpec):
    """The inverse transform of all tiles' sums, with bias, residual and activation.

    Operands: sums, out, bias?, residual?. A row of work is a tile, or, unless two_d, a row of tiles.
    """

    tiles: Tiles
    out: Located
    residual: Located | None
    bias: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return f"winograd_output_f{self.tiles.m}_k{self.tiles.k}{self.tiles.type_text}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.out.layout_text, sizes_text(*self.out.view.shape), self.tiles.window_text)

    @property
    def sums(self) -> Planes:
        """The sums, which the kernel reads."""
        return products(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.tiles.count // self.tiles.unit if self.out.view.elements else 0

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes

    @property
    def multiply_adds(self) -> int:
        return self.tiles.output_operations

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.tiles.dtype)

    @property
    def work(self) -> int:
        return TRANSFORM_WORK * self.sums.tiles * self.sums.count * self.tiles.out_ch

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        return WorkCounts(
            vectors=_transform_work(self.tiles, self.out, self.tiles.out_ch, machine),
            read=_plane_bytes(self.tiles, machine, read=False),
            written=OperandBytes(self.out.view.elements * self.tiles.item_bytes),
        )
