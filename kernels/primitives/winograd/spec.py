"""Specs of the kernels of Winograd convolutions: the single kernel, and the three stages."""

from dataclasses import dataclass

from mavcg.kernels.primitives.winograd.tiles import SLACK_TILES, Located, Planes, Tiles, input_planes, products
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.serialize import spec_format


@spec_format("winograd")
@dataclass(frozen=True)
class Winograd(KernelSpec):
    """act(bias + convolution + residual) of f32 images in a single kernel, block by block of tiles.

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
        return f"winograd_{dimensions}d_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(
            self.x.layout_text, self.out.layout_text, sizes_text(*self.out.view.shape), self.tiles.window_text
        )

    @property
    def macs(self) -> int:
        return self.out.view.elements * self.tiles.k * self.tiles.k_h * self.tiles.in_ch

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
        return f"winograd_input_f{self.tiles.m}_k{self.tiles.k}"

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
    def work(self) -> int:
        return TRANSFORM_WORK * self.inputs.tiles * self.inputs.count * self.tiles.in_ch


@spec_format("winograd_products")
@dataclass(frozen=True)
class WinogradProducts(KernelSpec):
    """The products of all tiles. Operands: inputs, weights, sums. A row of work is a chunk of a plane's output
    channels."""

    tiles: Tiles
    chunk: int

    @property
    def family(self) -> str:
        return f"winograd_products_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def symbol_shape(self) -> str:
        t = self.tiles
        return shape_text(sizes_text(t.out_h, t.out_w, t.out_ch), t.window_text)

    @property
    def macs(self) -> int:
        t = self.tiles
        return t.out_h * t.out_w * t.out_ch * t.k * t.k_h * t.in_ch

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
        return f"winograd_output_f{self.tiles.m}_k{self.tiles.k}"

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
    def work(self) -> int:
        return TRANSFORM_WORK * self.sums.tiles * self.sums.count * self.tiles.out_ch
