"""Instructions of i8mm and bf16, which the emulator lacks: their effect on the vector registers, computed in integers.

Source: Arm Architecture Reference Manual, C7.2 (SMMLA, USDOT, BFDOT, BFMMLA, BFMLALB, BFCVT) and BFDotAdd in J1.3, for
FPCR.EBF = 0: products and sums of BFDOT and BFMMLA round to odd and flush denormal numbers, whatever FPCR says. The
reference of the test is qemu-aarch64.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

Vectors = Sequence[int]  # v0 to v31, 128 bits each
_Compute = Callable[[int, Vectors], int]  # (instruction, registers) -> the new value of its destination

_MASK32 = (1 << 32) - 1
_INFINITY, _DEFAULT_NAN = 0x7F80_0000, 0x7FC0_0000
_LEAST_NORMAL = Fraction(1, 1 << 126)


def result_of(word: int, v: Vectors) -> tuple[int, int] | None:
    """Return (number of the destination, its new value) of an instruction; None for one that is not of i8mm or bf16."""
    for mask, value, compute in _ROWS:
        if word & mask == value:
            return word & 31, compute(word, v)
    return None


def _operands(word: int, v: Vectors) -> tuple[int, int, int]:
    return v[word & 31], v[word >> 5 & 31], v[word >> 16 & 31]


def _lanes(value: int, bits: int, signed: bool = False) -> list[int]:
    lanes = [value >> at & (1 << bits) - 1 for at in range(0, 128, bits)]
    return [lane - (1 << bits) if signed and lane >> bits - 1 else lane for lane in lanes]


def _joined_lanes(lanes: Sequence[int], bits: int = 32) -> int:
    return sum((lane & (1 << bits) - 1) << number * bits for number, lane in enumerate(lanes))


def _element(word: int, m: int) -> int:
    """Return a vector whose lanes of 32 bits are all the one that an instruction by element names, by H and L."""
    index = (word >> 11 & 1) << 1 | word >> 21 & 1
    return _joined_lanes([m >> 32 * index] * 4)


def _by_length(word: int, value: int) -> int:
    """Return the value, without its upper half for a vector of 64 bits."""
    return value if word >> 30 & 1 else value & (1 << 64) - 1


def _dot(n_signed: bool, m_signed: bool, by_element: bool) -> _Compute:
    def compute(word: int, v: Vectors) -> int:
        d, n, m = _operands(word, v)
        a, b = _lanes(n, 8, n_signed), _lanes(_element(word, m) if by_element else m, 8, m_signed)
        sums = [sum(a[4 * i + k] * b[4 * i + k] for k in range(4)) for i in range(4)]
        return _by_length(word, _joined_lanes([old + new for old, new in zip(_lanes(d, 32), sums, strict=True)]))

    return compute


def _matrix(n_signed: bool, m_signed: bool) -> _Compute:
    def compute(word: int, v: Vectors) -> int:
        d, n, m = _operands(word, v)
        a, b = _lanes(n, 8, n_signed), _lanes(m, 8, m_signed)
        old = _lanes(d, 32)
        at = [(row, column) for row in range(2) for column in range(2)]
        sums = [sum(a[8 * row + k] * b[8 * column + k] for k in range(8)) for row, column in at]
        return _joined_lanes([before + new for before, new in zip(old, sums, strict=True)])

    return compute


def _bfdot(by_element: bool) -> _Compute:
    def compute(word: int, v: Vectors) -> int:
        d, n, m = _operands(word, v)
        a, b = _lanes(n, 32), _lanes(_element(word, m) if by_element else m, 32)
        sums = [_bf_dot_add(old, x, y) for old, x, y in zip(_lanes(d, 32), a, b, strict=True)]
        return _by_length(word, _joined_lanes(sums))

    return compute


def _bfmmla(word: int, v: Vectors) -> int:
    d, n, m = _operands(word, v)
    a, b, old = _lanes(n, 32), _lanes(m, 32), _lanes(d, 32)
    sums = []
    for number, (row, column) in enumerate((row, column) for row in range(2) for column in range(2)):
        first = _bf_dot_add(old[number], a[2 * row], b[2 * column])
        sums.append(_bf_dot_add(first, a[2 * row + 1], b[2 * column + 1]))
    return _joined_lanes(sums)


def _bf_dot_add(total: int, a: int, b: int) -> int:
    """BFDotAdd: `total` plus the products of two pairs of bfloat16; each operation rounds to odd."""
    products = [_multiply(a << 16 & _MASK32, b << 16 & _MASK32), _multiply(a & 0xFFFF0000, b & 0xFFFF0000)]
    return _add(total, _add(*products))


def _value(bits: int) -> Fraction:
    """Return the value of a finite f32; a denormal number is 0."""
    exponent = bits >> 23 & 0xFF
    size = Fraction((bits & 0x7FFFFF | 0x800000) * 2**exponent, 1 << 150) if exponent else Fraction(0)
    return -size if bits >> 31 else size


def _round_to_odd(value: Fraction, sign_of_zero: int) -> int:
    """Return the f32 of a value: of two neighbours the odd one; too small: 0; too large: infinity."""
    sign = (value < 0) << 31 if value else sign_of_zero << 31
    size = abs(value)
    if size < _LEAST_NORMAL:
        return sign
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    scaled = size / Fraction(2) ** (exponent - 23)
    significand = scaled.numerator // scaled.denominator
    significand |= significand != scaled
    return sign | (_INFINITY if exponent > 127 else exponent + 127 << 23 | significand & 0x7FFFFF)


def _is_nan(bits: int) -> bool:
    return bits & ~(1 << 31) > _INFINITY


def _is_infinite(bits: int) -> bool:
    return bits & ~(1 << 31) == _INFINITY


def _multiply(a: int, b: int) -> int:
    sign = (a ^ b) >> 31
    if _is_nan(a) or _is_nan(b):
        return _DEFAULT_NAN
    if _is_infinite(a) or _is_infinite(b):
        finite = b if _is_infinite(a) else a
        return sign << 31 | _INFINITY if _is_infinite(finite) or _value(finite) else _DEFAULT_NAN
    return _round_to_odd(_value(a) * _value(b), sign)


def _add(a: int, b: int) -> int:
    if _is_nan(a) or _is_nan(b) or (_is_infinite(a) and _is_infinite(b) and a != b):
        return _DEFAULT_NAN
    if _is_infinite(a) or _is_infinite(b):
        return a if _is_infinite(a) else b
    return _round_to_odd(_value(a) + _value(b), (a & b) >> 31)


# (mask, value, effect), as in mavcg/objects/code_extensions.py. Not here: bfmlal and bfcvt, which round as FPCR says.
_ROWS: tuple[tuple[int, int, _Compute], ...] = (
    (0xFFE0FC00, 0x4E80A400, _matrix(True, True)),  # smmla
    (0xFFE0FC00, 0x6E80A400, _matrix(False, False)),  # ummla
    (0xFFE0FC00, 0x4E80AC00, _matrix(False, True)),  # usmmla
    (0xBFE0FC00, 0x0E809C00, _dot(False, True, False)),  # usdot
    (0xBFC0F400, 0x0F80F000, _dot(False, True, True)),  # usdot by element
    (0xBFC0F400, 0x0F00F000, _dot(True, False, True)),  # sudot by element
    (0xBFE0FC00, 0x2E40FC00, _bfdot(False)),
    (0xBFC0F400, 0x0F40F000, _bfdot(True)),
    (0xFFE0FC00, 0x6E40EC00, _bfmmla),
)
