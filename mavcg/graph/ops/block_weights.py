"""Operators on weights of 2, 4 and 8 bits with a scale for each block of neighbouring terms, which stay packed."""

from mavcg.graph import TensorType
from mavcg.graph.ops.op import Attr, Operator, TypedNode

BITS = (2, 4, 8)  # of a number

MOST_SUMMED = 1 << 24  # of a block, the possible numbers of all terms: times 127 they fit 32 bits, signed


def unit_terms(bits: int) -> int:
    """Return the numbers of which a block is a multiple: as many as the 32 bits of a vector's lane hold, at least 8."""
    return 16 if bits == 2 else 8


def packed_depth(bits: int, block: int, blocks: int) -> int:
    """Return the bytes of a row of packed numbers. block: numbers of a block; all blocks are stored whole."""
    return blocks * block * bits // 8


def check_blocks(case: TypedNode, rows: tuple[int, ...], depth: int) -> None:
    """Check that w, scales and zeros are those of `rows` of `depth` numbers. Raises: MavcgError."""
    bits, block = case.attr("bits"), case.attr("block")
    unit = unit_terms(bits)
    if bits not in BITS or block < unit or block % unit:
        raise case.fail(f"bits {bits} in blocks of {block}; 2, 4 or 8 bits in blocks of a multiple of {unit}")
    if block << bits > MOST_SUMMED:
        raise case.fail(f"blocks of {block} numbers, whose sums take more than 32 bits; at most {MOST_SUMMED >> bits}")
    blocks = -(-depth // block)
    packed = (*rows, packed_depth(bits, block, blocks))
    if case.type("w", ("u8",)).shape != packed:
        raise case.fail(f"w {case.type('w')} where {list(packed)} is needed")
    for name, dtypes in (("scales", ("f32",)), ("zeros", ("u8", "f32"))):
        if case.maybe(name) is not None and case.type(name, dtypes).shape != (*rows, blocks):
            raise case.fail(f"{name} {case.type(name)} where {[*rows, blocks]} is needed")


def _block_matmul(case: TypedNode) -> tuple[TensorType, ...]:
    """Return the type of x w + bias + residual; with a gate, of silu(gate) * x in place of x."""
    x, w = case.type("x", ("f32",), rank_min=1), case.type("w", ("u8",), rank=2)
    width = w.shape[0]
    check_blocks(case, (width,), x.shape[-1])
    zeros = case.maybe("zeros")
    if case.attr("quantize") and zeros is not None and zeros.dtype != "u8":
        raise case.fail("quantised activations with zero points that are no whole numbers")
    if case.maybe("bias") is not None and case.type("bias", ("f32",)).shape != (width,):
        raise case.fail(f"bias {case.type('bias')} where {width} elements are needed")
    if case.maybe("gate") is not None:
        if case.type("gate", ("f32",)) != x:
            raise case.fail(f"gate {case.type('gate')} where {x} is needed")
        if not case.attr("quantize"):
            raise case.fail("a gate of activations that are not quantised")
    made = TensorType("f32", (*x.shape[:-1], width))
    if case.maybe("residual") is not None and case.type("residual", ("f32",)) != made:
        raise case.fail(f"residual {case.type('residual')} where {made} is needed")
    return (made,)


def _expand_blocks(case: TypedNode) -> tuple[TensorType, ...]:
    w, depth = case.type("w", ("u8",), rank_min=1), case.attr("depth")
    case.at_least(1, "depth")
    check_blocks(case, w.shape[:-1], depth)
    return (TensorType("f32", (*w.shape[:-1], depth)),)


_BLOCKS = {"bits": Attr("int"), "block": Attr("int")}
OPS = (
    Operator(
        "block_matmul",
        ("x", "w", "scales", "zeros?", "bias?", "gate?", "residual?"),
        _block_matmul,
        {**_BLOCKS, "quantize": Attr("bool", False)},
    ),
    Operator("expand_blocks", ("w", "scales", "zeros?"), _expand_blocks, {**_BLOCKS, "depth": Attr("int")}),
)
