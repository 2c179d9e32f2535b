"""Shape of the innermost loop of a micro-kernel of floats: lanes of vectors, terms of a load and of an iteration.

All follow from the core and the type; how many pixels and vectors a tile has, register_tile.py chooses.
"""

from mavcg.graph import DTYPES
from mavcg.kernels.gemm.product_types import tensor_type
from mavcg.specs.kernel import Machine

LONG_RUN = 64  # terms of a run from which on iterations have more terms
AVX512_BYTES = 64  # size of a vector register
# Terms that are added in f16 one by one. Each addition rounds by at most 2^-11 of the sum so far, 64 of them by some
# 2^-8 if roundings are independent. Longer sums are cut into blocks of at most so many terms. Blocks of a group are
# added in f16: 16 additions more, which add an eighth of the error of the blocks' terms. Groups are added in f32.
F16_BLOCK_TERMS, F16_GROUP_TERMS = 64, 1024


def lanes_f32(machine: Machine) -> int:
    """Return the number of f32 lanes of the machine's vectors."""
    return machine.vector_bytes // 4


# f16 vectors of x86 are at most this long: their sums as f32 are one AVX-512 register, and a panel of packed weights.
MOST_F16_BYTES = 32


def vector_lanes(machine: Machine, dtype: str) -> int:
    """Return the lanes of the vectors in which products of a float type are computed; those of bf16 are f32."""
    size = DTYPES["f32" if tensor_type(dtype) == "bf16" else dtype].itemsize
    return (min(machine.vector_bytes, MOST_F16_BYTES) if dtype == "f16" else machine.vector_bytes) // size


def lane_counts(machine: Machine, vectors: int, used: int) -> tuple[int, ...]:
    """Return the lanes that are computed of each vector of a tile. used: lanes of the last vector that are needed.

    With AVX-512 the last vector has half of the lanes where that is enough: such multiply-adds take half of the time on
    cores with two 256-bit pipes (Zen 4), and no more than whole ones elsewhere.
    """
    lanes = lanes_f32(machine)
    last = lanes // 2 if machine.vector_bytes == AVX512_BYTES and used <= lanes // 2 else lanes
    return (*[lanes] * (vectors - 1), last)


def by_lane(machine: Machine) -> bool:
    """Return True if a vector of four terms' inputs is loaded and multiplied by lane, False for loads of single
    elements.

    In-order AArch64 cores dual-issue loads of single elements with multiplications, but not loads of 128 bits (an A55
    issues `ldr s` with `fmla`, and nothing with the second half of `ldr q`: its TOML).
    """
    return machine.arch == "aarch64" and not machine.in_order


QUAD = 4  # f32 inputs of a pixel that are loaded at once
# f16 inputs of a pixel that are loaded at once, 128 bits or 64: an in-order core issues `ldr d` with a multiply-add,
# and nothing with the second half of `ldr q`.
F16_TERMS, F16_TERMS_IN_ORDER = 8, 4
BF16_PAIR = 2  # bf16 inputs that x86 loads into every lane of a vector of 32 bits


def most_terms_at_once(machine: Machine, dtype: str = "f32") -> int:
    """Return the terms whose inputs of a pixel one load reads, to be multiplied by lane; 1 for loads of single
    elements."""
    if dtype == "bf16":
        return BF16_PAIR if machine.arch == "x86_64" else QUAD
    if dtype == "f16":
        return 1 if machine.arch != "aarch64" else F16_TERMS_IN_ORDER if machine.in_order else F16_TERMS
    return QUAD if by_lane(machine) else 1


def terms_at_once(machine: Machine, dtype: str, count: int) -> list[int]:
    """Return the terms of each load of a pixel's inputs, for `count` terms of an iteration.

    f32 inputs are loaded one by one where an iteration has other than QUAD terms.
    """
    most = most_terms_at_once(machine, dtype)
    if most == 1 or (dtype == "f32" and count != most):
        return [1] * count
    sizes = list[int]()
    while most > 1:
        number, count = divmod(count, most)
        sizes += [most] * number
        most = most // 2 if most > F16_TERMS_IN_ORDER else 1
    return [*sizes, *[1] * count]


def keeps_inputs(machine: Machine, pixels: int, vectors: int) -> bool:
    """Return True if a term's inputs stay in registers while vectors of weights are loaded one by one, not vice versa.

    That takes fewer registers if there are fewer pixels than vectors. Measured on x86 only.
    """
    return machine.arch == "x86_64" and pixels < vectors


def unroll_factor(machine: Machine, count: int, dtype: str = "f32") -> int:
    """Return the number of terms per iteration of the innermost loop. count: terms of the run.

    The loop overhead matters where two threads share a core: shared_width in profiles/fits/x86.toml.
    """
    if machine.arch != "x86_64":
        return max(2, most_terms_at_once(machine, dtype))
    return 8 if count >= LONG_RUN else 4
