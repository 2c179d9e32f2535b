"""Types of products: those of tensors, and of bf16 tensors whose steps have several terms of each pixel and channel."""

from mavcg.graph import DTYPES

# Types of products whose steps have several bf16 terms of each pixel and channel: pairs, and matrices of four. Those of
# 16 to 32, such as bf16x24, are blocks that a tile register's row holds.
BF16_PAIRS, BF16_MATRIX = "bf16x2", "bf16x4"
LEAST_BLOCK_TERMS = 16


def product_type(dtype: str, terms: int) -> str:
    """Return the type of products of tensors of `dtype` whose steps have so many terms."""
    return f"{dtype}x{terms}" if terms > 1 else dtype


def step_terms(dtype: str) -> int:
    """Return the terms of a step of a type of products."""
    return int(dtype.partition("x")[2] or 1)


def in_blocks(dtype: str) -> bool:
    """Return True for products of blocks of terms (tile_products.py)."""
    return step_terms(dtype) >= LEAST_BLOCK_TERMS


def packed_terms(terms: int) -> int:
    """Return the neighbouring terms that a packed channel keeps together, for steps of so many terms: of blocks two."""
    return terms if terms < LEAST_BLOCK_TERMS else 2


def tensor_type(dtype: str) -> str:
    """Return the type of the tensors of a type of products."""
    return dtype.partition("x")[0]


def product_bytes(dtype: str) -> int:
    """Return the size of what one step of a sum reads of a pixel, or of a channel, in bytes."""
    return DTYPES[tensor_type(dtype)].itemsize * step_terms(dtype)
