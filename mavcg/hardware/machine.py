"""A core as emitters see it: its instruction set and its vectors."""

from dataclasses import dataclass

LINE_BYTES = 64  # size of a cache line, on every core


@dataclass(frozen=True)
class Machine:
    """The properties of a core that emitters use. They change speed, never results.

    arch: "aarch64" or "x86_64". llvm_cpu, llvm_features: target attributes of functions; features have a sign.
    vector_bytes: size of the vectors to use, in bytes; vector_registers: their number. in_order: True for an in-order
    core. dot_product: True if one instruction adds four 8-bit products to 32 bits (NEON dot product, AVX-VNNI,
    AVX512-VNNI). matrix_product: True if one instruction adds the product of a 2x8 and an 8x2 matrix of 8-bit numbers
    to 32 bits (NEON i8mm: smmla, usmmla). bf16_dot: True if one instruction adds bf16 products to f32, at least as fast
    as f32 multiply-adds (AVX512-BF16: pairs; NEON bf16: matrices). half: True if it computes in vectors of f16
    (FEAT_FP16, AVX512-FP16). int8_tiles, bf16_tiles: True if one instruction adds the product of tiles, of 16 rows of
    64 bytes each, of 8-bit numbers to 32 bits (AMX-INT8), or of bf16 to f32 (AMX-BF16); code with it runs only where
    the system permits tiles. two_wide_pipes: True if two multiply-adds of vectors of 64 bytes start in a cycle. Every
    core has an f32 fused multiply-add: on x86 a model library needs at least x86-64-v3.
    """

    name: str
    arch: str
    llvm_cpu: str
    llvm_features: tuple[str, ...] = ()
    vector_bytes: int = 16
    vector_registers: int = 32
    in_order: bool = False
    dot_product: bool = False
    matrix_product: bool = False
    bf16_dot: bool = False
    int8_tiles: bool = False
    bf16_tiles: bool = False
    half: bool = False
    two_wide_pipes: bool = False
