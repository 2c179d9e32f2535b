"""Grammar of kernels' linkage names, which describe the kernel to readers of profiles and disassembly, and its parser.

    symbol  = op "_" type ["_" layout ["_" layout]] ["_" sizes] ["_" sum] ["_" window] "_" digest ["." version]
    op      = conv2d, depthwise, winograd_2d_f4_k3, softmax, ..
    type    = f32, i8, .. of the first operand; x8, x16, x32, x64: elements of so many bits that are only moved
    layout  = nhwc, nchw, chw, hcw, hwc, chwc8, ..: of the images read and written; one where both are the same
    sizes   = 1x24x24x64: of the result in the order of its last layout, or of the loops where dimensions are merged
    sum     = k256: terms of each sum; m64n100k256: a product of m x k and k x n
    window  = 3x3x16 "s" 2 ["d" 2] ["g" 4]: filter height, width, input channels of a group where they are summed;
              stride, dilation and number of groups, dilation and groups where they are not 1; s2x1: rows, columns
    digest  = 8 hexadecimal digits of everything else that decides the code (specs/serialize.py)
    version = the core type that the code is for, or "generic"

A name without its version is an identifier of C; with it, it is a symbol of ELF and Mach-O, as compilers name versions
of a function ("f.avx2").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError

DIGEST_DIGITS = 8
_TYPE = r"(?:[fiu]|x)(?:8|16|32|64)|bool"
_LAYOUT = r"nhwc|nchw|chwc\d+|chw|hcw|hwc"
_SIZES = r"\d+(?:x\d+)*"
_PAIR = r"\d+(?:x\d+)?"
_SYMBOL = re.compile(
    rf"(?P<op>[a-z][a-z0-9]*(?:_[a-z0-9]+)*?)_(?P<dtype>{_TYPE})"
    rf"(?:_(?P<layout>(?:{_LAYOUT})(?:_(?:{_LAYOUT}))?))?"
    rf"(?:_(?P<sizes>{_SIZES}))?(?:_(?P<sum>(?:m\d+n\d+)?k\d+))?"
    rf"(?:_(?P<window>{_SIZES}s{_PAIR}(?:d{_PAIR})?(?:g\d+)?))?"
    rf"_(?P<digest>[0-9a-f]{{{DIGEST_DIGITS}}})(?:\.(?P<version>[A-Za-z0-9][A-Za-z0-9_.+-]*))?"
)


@dataclass(frozen=True)
class KernelSymbol:
    """The parts of a kernel's symbol, named as in the grammar; "" and () for absent ones."""

    op: str
    dtype: str
    layouts: tuple[str, ...]
    sizes: tuple[int, ...]
    sum: str
    window: str
    digest: str
    version: str


def parse_kernel_symbol(symbol: str) -> KernelSymbol:
    """Return the parts of a kernel's symbol. Raises: MavcgError for text that the grammar excludes."""
    match = _SYMBOL.fullmatch(symbol)
    if match is None:
        raise MavcgError(f"'{symbol}' is not a kernel's symbol: op_type_layout_sizes_window_digest.version is expected")
    part = {name: text or "" for name, text in match.groupdict().items()}
    return KernelSymbol(
        part["op"],
        part["dtype"],
        tuple(part["layout"].split("_")) if part["layout"] else (),
        tuple(map(int, part["sizes"].split("x"))) if part["sizes"] else (),
        part["sum"],
        part["window"],
        part["digest"],
        part["version"],
    )


def symbol_text(family: str, shape: str, digest: str) -> str:
    """Return the symbol of these parts. family: op and type, or bits for the type, in any order; the default is f32."""
    words = family.split("_")
    types = [word for word in words if re.fullmatch(_TYPE, word) or word.isdigit()]
    dtype = types[-1] if types else "f32"
    op = [word for number, word in enumerate(words) if not types or number != _last(words, dtype)]
    return "_".join(filter(None, (*op, f"x{dtype}" if dtype.isdigit() else dtype, shape, digest)))


def _last(words: Sequence[str], word: str) -> int:
    return len(words) - 1 - words[::-1].index(word)


def sizes_text(*lengths: int) -> str:
    """Return lengths in a symbol's format, such as 24x24x64."""
    return "x".join(map(str, lengths))


def window_text(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int] = (1, 1), groups: int = 1) -> str:
    """Return a window in a symbol's format, such as 3x3x16s2.

    kernel: height, width, and input channels if they are summed.
    """
    text = f"{sizes_text(*kernel)}s{pair_text(stride)}"
    text += f"d{pair_text(dilation)}" if set(dilation) != {1} else ""
    return text + (f"g{groups}" if groups != 1 else "")


def pair_text(lengths: Sequence[int]) -> str:
    """Return lengths along two axes, such as 1x7; a single number where they are equal."""
    return str(lengths[0]) if len(set(lengths)) == 1 else sizes_text(*lengths)


def shape_text(*parts: str) -> str:
    """Return layouts, sizes, sum and window joined in the order of the grammar; two equal layouts are written once."""
    return "_".join(part for number, part in enumerate(parts) if part and (number == 0 or part != parts[number - 1]))
