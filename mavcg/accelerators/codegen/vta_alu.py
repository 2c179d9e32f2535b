"""Generate the work of VTA's ALU on tiles of accumulators: shifts, limits, sums, products, maxima of windows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mavcg.accelerators.codegen.regions import Region
from mavcg.accelerators.codegen.vta_code import VectorTile, VtaCode
from mavcg.accelerators.codegen.vta_nodes import divisor_bits
from mavcg.accelerators.codegen.vta_windows import input_pixel, inside
from mavcg.accelerators.fixed_point import LOWEST, bounds
from mavcg.accelerators.isa.datapath import blocks
from mavcg.accelerators.isa.footprint import AccessedRange
from mavcg.accelerators.isa.vta import ALU_OPS, BLOCK, LEAST_SHIFT, MOST_SHIFT, SUMS
from mavcg.accelerators.xgraph import XNode


@dataclass
class AluCode:
    """The tiles of a range of channels of a group, while its code is generated.

    channels: the range. names: nodes of the group. tiles: by name of the tensor. pinned: addresses that `release` gives
    back.
    """

    code: VtaCode
    channels: tuple[int, int]
    names: set[str]
    tiles: dict[str, VectorTile] = field(default_factory=dict)
    pinned: list[int] = field(default_factory=list)

    def release(self) -> None:
        """Unpin all tiles and vectors."""
        for address in self.pinned:
            self.code.sums.release(address)

    def new_tile(self, region: Region) -> VectorTile:
        """Return a pinned tile for a result. Raises: DoesNotFitError."""
        first, end = self.channels
        count = blocks(end - first, BLOCK)
        address = self.code.sums.allocate(region.rows * region.columns * count, None)
        self.pinned.append(address)
        return VectorTile(address, region, first, count)

    def operand(self, node: XNode, name: str, regions: Mapping[str, Region], changed: bool) -> VectorTile:
        """Return the tile of an input of a node, loaded if no node of the group made it.

        changed: True for a tile that may be overwritten: the input's own if no other node needs it, else a copy.
        """
        if name not in self.tiles:
            first, end = self.channels
            tile = self.code.load_map(name, regions[name], first, blocks(end - first, BLOCK), to_sums=True)
            self.pinned.append(tile.address)
            self.tiles[name] = tile
        tile = self.tiles[name]
        if not changed or (self._readers(name) == [node.name] and node.inputs.count(name) == 1):
            return tile
        return self.copy_of(tile, tile.region)

    def _readers(self, name: str) -> list[str]:
        return [reader for reader in self.code.readers[name] if reader in self.names]

    def copy_of(self, tile: VectorTile, region: Region) -> VectorTile:
        """Return a copy of a region of a tile."""
        made = self.new_tile(region)
        self.reset(made)
        self.combine_pixels("add", made, tile, region)
        return made

    def reset(self, tile: VectorTile) -> None:
        """Set a tile to 0."""
        self._whole("compute.gemm", tile, tile.address, {"reset_reg": 1})

    def add_vectors(self, tile: VectorTile, vectors: int) -> None:
        """Add vectors, one for each block of channels, to all pixels of a tile."""
        self.vector_operation("add", tile, vectors)

    def vector_operation(self, op: str, tile: VectorTile, vectors: int) -> None:
        """Apply an operation with vectors, one for each block of channels, to all pixels of a tile."""
        self._whole("compute.alu", tile, vectors, {"alu_opcode": ALU_OPS.index(op)})

    def immediate(self, op: str, tile: VectorTile, value: int, node: XNode | None = None) -> None:
        """Apply an operation with a number to a tile. node: the node whose result is then complete."""
        fields = {"alu_opcode": ALU_OPS.index(op), "use_imm": 1, "imm": value}
        self._whole("compute.alu", tile, tile.address, fields, node)

    def shift(self, tile: VectorTile, shift: int) -> None:
        """Shift a tile right, or left if shift is negative, without rounding."""
        while shift:
            part = max(LEAST_SHIFT, min(MOST_SHIFT, shift))
            self.immediate("shr", tile, part)
            shift -= part

    def finish(self, node: XNode, tile: VectorTile, shift: int) -> None:
        """Round, shift and limit the sums of a node."""
        if shift > 0 and self.code.path.rounding == "half_up":
            self.immediate("add", tile, 1 << (shift - 1))
        self.shift(tile, shift)
        self.limit(tile, *bounds(node), node)

    def limit(self, tile: VectorTile, low: int, high: int, node: XNode) -> None:
        """Limit a tile to [low, high], which completes a node's result."""
        self.immediate("max", tile, low)
        self.immediate("min", tile, high, node)

    def combine_pixels(self, op: str, tile: VectorTile, second: VectorTile, region: Region) -> None:
        """Apply an operation with the same pixels of another tile."""
        self.combine_strided(op, tile, region, second, (region.top, region.left), (1, 1))

    def combine_strided(
        self,
        op: str,
        tile: VectorTile,
        outs: Region,
        second: VectorTile,
        origin: tuple[int, int],
        stride: tuple[int, int],
    ) -> None:
        """Apply an operation to pixels of a tile, with pixels of another one.

        outs: region of the tile. origin: row and column of the second operand's first pixel. stride: its distances.
        """
        pairs = [(tile.at(outs.top, outs.left) + at, second.at(*origin) + at, 0) for at in range(tile.count)]
        factors = stride[0] * second.region.columns * second.count, stride[1] * second.count
        self._loops("compute.alu", tile, outs, tuple(pairs), factors, {"alu_opcode": ALU_OPS.index(op)}, second)

    def _whole(
        self,
        mnemonic: str,
        tile: VectorTile,
        second: int,
        fields: Mapping[str, int],
        node: XNode | None = None,
    ) -> None:
        pairs = tuple((tile.address + at, second + at, 0) for at in range(tile.count))
        other = VectorTile(second, Region(0, 1, 0, 1), 0, tile.count)
        self._loops(mnemonic, tile, tile.region, pairs, (0, 0), fields, other, node)

    def _loops(
        self,
        mnemonic: str,
        tile: VectorTile,
        outs: Region,
        pairs: tuple[tuple[int, int, int], ...],
        factors: tuple[int, int],
        fields: Mapping[str, int],
        second: VectorTile,
        node: XNode | None = None,
    ) -> None:
        begin = self.code.load_micro_ops(pairs)
        values = {"uop_bgn": begin, "uop_end": begin + len(pairs), "iter_out": outs.rows, "iter_in": outs.columns}
        if outs.rows > 1:
            values |= {"dst_factor_out": tile.region.columns * tile.count, "src_factor_out": factors[0]}
        if outs.columns > 1:
            values |= {"dst_factor_in": tile.count, "src_factor_in": factors[1]}
        ranges = (
            AccessedRange(SUMS.name, second.address, second.end, False),
            AccessedRange(SUMS.name, tile.address, tile.end, True),
        )
        origin = None if node is None else self.code.origin(node, tile.region, tile.first)
        self.code.emit(mnemonic, {**values, **fields}, ranges, origin)


def pool_code(alu: AluCode, node: XNode, regions: Mapping[str, Region]) -> VectorTile:
    """Emit a maximum or an average of windows and return its tile."""
    source = alu.code.by_name[node.inputs[0]]
    tile, out = alu.operand(node, source.name, regions, changed=False), regions[node.name]
    target = alu.new_tile(out)
    alu.reset(target)
    if node.kind == "max_pool":
        alu.immediate("add", target, LOWEST)
    for row in range(node.kernel[0]):
        rows = inside(node, 0, row, out.top, out.bottom, source.shape[1])
        for column in range(node.kernel[1]):
            columns = inside(node, 1, column, out.left, out.right, source.shape[2])
            if rows[0] < rows[1] and columns[0] < columns[1]:
                outs = Region(*rows, *columns)
                origin = input_pixel(node, outs.top, outs.left, row, column)
                alu.combine_strided(
                    "max" if node.kind == "max_pool" else "add", target, outs, tile, origin, node.stride
                )
    bits = divisor_bits(node, source) if node.kind == "avg_pool" else 0
    alu.finish(node, target, (source.radix or 0) + bits - (node.radix or 0))
    return target


def eltwise_code(alu: AluCode, node: XNode, regions: Mapping[str, Region]) -> VectorTile:
    """Emit an element-wise operation, in the tile of its first operand, and return the tile."""
    by_name, out = alu.code.by_name, regions[node.name]
    radices = [by_name[name].radix or 0 for name in node.inputs]
    total = sum(radices) if node.op == "mul" else max(radices)
    lefts = [0 if node.op in ("mul", "copy") else total - radix for radix in radices]
    first = alu.operand(node, node.inputs[0], regions, changed=True)
    first = first if first.region == out else alu.copy_of(first, out)
    alu.shift(first, -lefts[0])
    if node.op != "copy":
        changed = lefts[-1] > 0 or node.op == "sub"
        second = alu.operand(node, node.inputs[-1], regions, changed=changed)
        alu.shift(second, -lefts[-1])
        if node.op == "sub":
            alu.immediate("mul", second, -1)
        alu.combine_pixels("add" if node.op == "sub" else node.op, first, second, out)
    alu.finish(node, first, total - (node.radix or 0))
    return first
