"""Products of many lines of quantised activations with weights in blocks, by AMX's tiles: 16 lines by 16 channels.

A panel's numbers are unpacked once, less their zero points, into scratch. Then each tile of lines goes over the blocks:
a tile of exact sums is stored, its rows are loaded again as vectors, and added to the sums of all blocks, which are in
registers, in the order of other cores. This is a software pipeline over the blocks of all tiles of a panel, of four
rooms: while the rows of a block are added, the products of the third block behind it begin and the sums of the second
one are stored. A product takes some 50 cycles, a store occupies the decoders for 14: they stand between the rows, so
that vectors wait for neither.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph.reference.block_weights import LARGEST
from mavcg.kernels.block_weights.block_sums import PanelOperands
from mavcg.kernels.block_weights.float_terms import PanelWeights
from mavcg.kernels.block_weights.integer_terms import IntegerTerms, product_form
from mavcg.kernels.block_weights.spec import END_BYTES, BlockProduct, block_pitch, tile_form
from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I32,
    Values,
    address,
    call_intrinsic,
    const,
    fma,
    for_range,
    note_tile,
    number,
    prefetch_line,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, i32_lanes, shuffle, splat
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.builder.x86_tiles import (
    ROW_BYTES,
    TILE_BYTES,
    TILE_ROWS,
    TileShape,
    add_tile_products,
    aligned_memory,
    clear_tile,
    configure_tiles,
    load_tile,
    store_tile,
)
from mavcg.kernels.int8.register_tile import GROUP, TILE_LANES
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
Actions: TypeAlias = Sequence[Callable[[], None]]  # emitters of tile instructions, in order
ROOMS = 4  # of sums of a block, in tile registers 0 to 3
AHEAD, STORED = 3, 2  # blocks by which products and stores of sums precede the additions
NUMBERS, WEIGHTS, PAIR = 4, 6, 2  # tile registers: two of numbers, two of weights
# 1.5 * 2 ** 23: a whole number below 2 ** 22 in magnitude added to its bits, as an integer, is added to its value.
SHIFT, SHIFTED_BITS, LARGEST_SHIFTED = 12582912.0, 0x4B400000, 1 << 22
_LANES = ir.VectorType(I32, TILE_LANES)


class TileLines:
    """Emitter of the sums of a panel for tiles of lines; made where a kernel begins, of which it reserves memory."""

    def __init__(self, b: ir.IRBuilder, spec: BlockProduct, machine: Machine) -> None:
        form = tile_form(spec.weights)
        assert form is not None
        self.b, self.spec, self.row_terms = b, spec, form.row_terms
        self.weights = PanelWeights(b, spec.weights, TILE_LANES)
        dots = product_form(machine, spec.weights.panel, False, spec.weights.bits)
        self.terms = IntegerTerms(b, dots, spec.weights, 1, 1, False)
        # Numbers of 8 bits less a zero point take 9: they are less 128, and their sums are corrected.
        self.corrected = spec.weights.zeros and spec.weights.bits == 8
        bits = spec.weights.bits
        largest = 1 << bits - 1 if bits == 8 else (1 << bits) - 1
        self.shifted = not self.corrected and spec.weights.block * largest * LARGEST < LARGEST_SHIFTED
        self.exact = aligned_memory(b, ROOMS * TILE_BYTES, "exact")
        self.results = aligned_memory(b, TILE_BYTES, "results")
        self.scales = aligned_memory(b, ROOMS * ROW_BYTES, "scales")
        self.block_bytes = spec.weights.block * spec.weights.panel

    def configure(self) -> None:
        """Emit the configuration of the tile registers."""
        sums = dict.fromkeys(range(ROOMS), TileShape(TILE_ROWS, ROW_BYTES))
        numbers = dict.fromkeys(range(NUMBERS, NUMBERS + PAIR), TileShape(TILE_ROWS, self.row_terms))
        weights = dict.fromkeys(range(WEIGHTS, WEIGHTS + PAIR), TileShape(self.row_terms // GROUP, ROW_BYTES))
        configure_tiles(self.b, sums | numbers | weights)

    def emit(self, panel: PanelOperands, end: Value, store: Callable[[Value, Values], None]) -> None:
        """Emit the lines from 0 to `end` by tiles, and store(first line, vectors of f32) for the lines of each."""
        b = self.b
        note_tile(b, TILE_ROWS, 1)
        self.unpack(panel)
        if self.spec.blocks % ROOMS == 0:
            self.begin(panel, const(0))

        def last_tile(first: Value, used: Value) -> None:
            for row, total in enumerate(self.sums(panel, first, used)):
                b.store(total, address(b, self.results, row * ROW_BYTES), align=ROW_BYTES)

            def line(row: Value) -> None:
                place = address(b, self.results, scale_index(b, row, ROW_BYTES))
                total = b.load(place, name="total", align=ROW_BYTES, typ=ir.VectorType(F32, TILE_LANES))
                store(b.add(first, row), (total,))

            repeat(b, const(0), used, line, "line")

        rest = b.urem(end, const(TILE_ROWS), name="last_lines")
        whole = b.sub(end, rest)
        repeat(b, const(0), whole, lambda first: store(first, self.sums(panel, first, None)), "tile", TILE_ROWS)
        if self.spec.per_index or self.spec.x.count % TILE_ROWS:
            with b.if_then(b.icmp_signed(">", rest, const(0))):
                last_tile(whole, rest)

    def unpack(self, panel: PanelOperands) -> None:
        """Emit the loop that writes a panel's numbers, as rows of tiles, and its scales to scratch."""
        b, form = self.b, self.spec.weights
        groups = form.unit_terms // GROUP

        def block(index: Value) -> None:
            packed = address(b, panel.weights, scale_index(b, index, form.block_bytes))
            to = address(b, panel.scratch, scale_index(b, index, self.block_bytes))
            zeros = self.zeros(packed)
            for unit in range(form.units):
                for part, numbers in enumerate(self.terms.numbers(packed, unit, 0)):
                    place = address(b, to, (unit * groups + part) * ROW_BYTES)
                    b.store(b.sub(numbers, zeros), place, align=ROW_BYTES)
            b.store(self.weights.scale(packed, 0), self.scale_place(panel, index), align=ROW_BYTES)

        repeat(b, const(0), const(self.spec.blocks), block, "unpacked")

    def zeros(self, packed: Value) -> Value:
        """Return what is subtracted from a block's numbers, bytes for each of a channel's four terms."""
        b, form, typ = self.b, self.spec.weights, ir.VectorType(I8, ROW_BYTES)
        if not form.zeros or self.corrected:
            return ir.Constant(typ, [form.middle] * ROW_BYTES)
        place = address(b, packed, form.zeros_at)
        loaded = b.load(place, name="zeros", align=1, typ=ir.VectorType(I8, TILE_LANES))
        return shuffle(b, loaded, loaded, [channel for channel in range(TILE_LANES) for _ in range(GROUP)])

    def scale_place(self, panel: PanelOperands, index: Value) -> Value:
        """Return the address of a block's scales of the weights in scratch."""
        return address(
            self.b, panel.scratch, self.b.add(const(self.spec.unpacked_bytes), scale_index(self.b, index, ROW_BYTES))
        )

    def sums(self, panel: PanelOperands, first: Value, used: Value | None) -> Values:
        """Emit the loop over blocks; return the sums of a tile's lines, of which `used` count; None: all.

        The pipeline is at the tile's first block before, and after it at that of the tile behind, if the number of
        blocks is a multiple of ROOMS.
        """
        b, blocks, counted = self.b, self.spec.blocks, None
        tiles = -(-self.spec.x.count // TILE_ROWS)
        if used is not None:
            lanes = i32_lanes(tuple(range(TILE_ROWS)))
            counted = b.icmp_signed("<", lanes, splat(b, b.trunc(used, I32), TILE_ROWS), name="counted")
        if blocks % ROOMS:
            self.begin(panel, first)
        # Behind all whole tiles there may be no lines: those products are not used, and read a tile of the workspace.
        behind = b.add(first, const(TILE_ROWS if used is None else 0), name="behind")

        def add(index: Value, room: int, acc: Values, actions: Actions) -> Values:
            self.prefetch_out(panel, first, index)
            block = address(b, panel.weights, scale_index(b, index, self.spec.weights.block_bytes))
            self.weights.prefetch(block, self.spec.panel_bytes, b.udiv(first, const(TILE_ROWS)), tiles)
            ends = self.ends(panel, first, index)
            scales = ends if counted is None else self.kept_scales(ends, room, counted)
            return self.add(panel, index, ends, scales, room, acc, actions)

        def several(index: Value, acc: Values) -> Values:
            for room in range(ROOMS):
                ahead = b.add(index, const(AHEAD + room), name="ahead")
                within = b.icmp_signed("<", ahead, const(blocks))
                line = b.select(within, first, behind, name="line")
                number = b.select(within, ahead, b.sub(ahead, const(blocks)))
                actions = [*self.products(panel, line, number, (room + AHEAD) % ROOMS), self.store(room + STORED)]
                acc = add(b.add(index, const(room)), room, acc, actions)
            return acc

        start: Values = (f32_splat(0.0, TILE_LANES),) * TILE_ROWS
        rest = blocks % ROOMS
        acc = for_range(b, const(0), const(blocks - rest), ROOMS, start, several, "block")
        for room in range(rest):
            stored = [self.store(room + STORED)] if room + STORED < rest else []
            acc = add(const(blocks - rest + room), room, acc, stored)
        return acc

    def prefetch_out(self, panel: PanelOperands, first: Value, index: Value) -> None:
        """Emit a block's part of the prefetches of what a tile stores at its end, and of what is added to it before: a
        cache line of each of its lines.

        Lines are often a multiple of 4 KiB apart, in the same set of a cache, so that none stays from panel to panel.
        """
        b, spec, share = self.b, self.spec, -(-TILE_ROWS // self.spec.blocks)
        for part in range(share):
            row = minimum(b, b.add(scale_index(b, index, share), const(part)), const(TILE_ROWS - 1))
            for pointer, lines in ((panel.out, spec.out), (panel.residual, spec.residual)):
                if pointer is not None and lines is not None:
                    # Not inbounds: there may be fewer lines.
                    offset = scale_index(b, b.add(first, row), lines.pitch * F32_BYTES)
                    ahead = b.gep(pointer, [offset], name="out_ahead", source_etype=I8)
                    prefetch_line(b, ahead, write=pointer is panel.out)

    def begin(self, panel: PanelOperands, first: Value) -> None:
        """Emit the products of the blocks before the loop, and the stores of sums of those that it adds first."""
        blocks = self.spec.blocks
        for room in range(min(AHEAD, blocks)):
            for action in self.products(panel, first, const(room), room):
                action()
        for room in range(min(STORED, blocks)):
            self.store(room)()

    def products(self, panel: PanelOperands, first: Value, index: Value, room: int) -> Actions:
        """Return the emitters of the exact sums of a block in a tile register."""
        b, form, pair = self.b, self.spec.weights, room % PAIR
        lines = address(b, panel.numbers, scale_index(b, index, block_pitch(self.spec.x, form.block)))
        lines = address(b, lines, scale_index(b, first, form.block))
        rows = address(b, panel.scratch, scale_index(b, index, self.block_bytes))
        actions = []
        for at in range(0, form.block, self.row_terms):

            def load_weights(at: int = at) -> None:
                if not at:
                    clear_tile(b, room)
                load_tile(b, WEIGHTS + pair, address(b, rows, at * form.panel), ROW_BYTES)

            def load_numbers(at: int = at) -> None:
                load_tile(b, NUMBERS + pair, address(b, lines, at), form.block)

            def multiply() -> None:
                add_tile_products(b, "tdpbssd", room, NUMBERS + pair, WEIGHTS + pair)

            actions += [load_weights, load_numbers, multiply]
        return actions

    def store(self, room: int) -> Callable[[], None]:
        """Return the emitter of the store of a tile of exact sums, as rows of lines. room: modulo ROOMS."""
        number = room % ROOMS
        return lambda: store_tile(self.b, number, address(self.b, self.exact, number * TILE_BYTES), ROW_BYTES)

    def ends(self, panel: PanelOperands, first: Value, index: Value) -> Value:
        """Return the address of the scale of a tile's first line in a block."""
        b = self.b
        end = address(b, panel.ends, scale_index(b, index, self.spec.x.count * END_BYTES))
        return address(b, end, scale_index(b, first, F32_BYTES))

    def kept_scales(self, ends: Value, room: int, counted: Value) -> Value:
        """Emit a copy of the scales of the lines that count; those of others are 0, as denormal ones take long."""
        b, typ = self.b, ir.VectorType(F32, TILE_ROWS)
        zeros = ir.Constant(typ, [0.0] * TILE_ROWS)
        name = f"llvm.masked.load.v{TILE_ROWS}f32.p0"
        scales = call_intrinsic(b, name, typ, ends, const(4, I32), counted, zeros)
        place = address(b, self.scales, room * ROW_BYTES)
        b.store(scales, place, align=ROW_BYTES)
        return place

    def add(
        self, panel: PanelOperands, index: Value, ends: Value, scales: Value, room: int, acc: Values, actions: Actions
    ) -> Values:
        """Return the sums plus those of a block, whose exact sums are stored. scales: address of those of the lines.
        actions: what is emitted between the rows."""
        b = self.b
        w_scale = b.load(self.scale_place(panel, index), name="w_scale", align=ROW_BYTES, typ=acc[0].type)
        share = self.share(panel, index) if self.corrected else None
        new = []
        for row, before in enumerate(acc):
            for action in actions[-(-row * len(actions) // TILE_ROWS) : -(-(row + 1) * len(actions) // TILE_ROWS)]:
                action()
            place = address(b, self.exact, room * TILE_BYTES + row * ROW_BYTES)
            total = b.load(place, name="sums", align=ROW_BYTES, typ=_LANES)
            if share is not None:
                place = address(b, ends, self.spec.x.count * F32_BYTES + row * F32_BYTES)
                of_line = splat(b, b.load(place, name="of_line", align=4, typ=I32), TILE_LANES)
                total = b.sub(total, b.mul(share, of_line))
            place = address(b, scales, row * F32_BYTES)
            scale = b.fmul(w_scale, splat(b, b.load(place, name="scale", align=4, typ=F32), TILE_LANES))
            new.append(fma(b, self.convert(total, scale.type), scale, before))
        return tuple(new)

    def convert(self, total: Value, typ: ir.Type) -> Value:
        """Return exact sums as f32. By a shift where it is exact: beside tile instructions a core starts one conversion
        a cycle, as of products, but two additions."""
        b = self.b
        if not self.shifted:
            return b.sitofp(total, typ)
        return b.fsub(b.bitcast(b.add(total, number(total, SHIFTED_BITS)), typ), f32_splat(SHIFT, TILE_LANES))

    def share(self, panel: PanelOperands, index: Value) -> Value:
        """Return the zero points of a block less what was subtracted from its numbers."""
        b, form = self.b, self.spec.weights
        packed = address(b, panel.weights, scale_index(b, index, form.block_bytes))
        zeros = self.weights.zero_points(packed, 0)
        return b.sub(zeros, number(zeros, form.middle))
