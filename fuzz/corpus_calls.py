"""Inputs of the C targets whose bytes are calls of a library; the sources of the targets say what bytes mean."""

import itertools
import struct
from collections.abc import Iterator

AS_IT_IS = 0xFF  # an argument that is right
COLUMN_MAJOR, PLAIN_ENDS = 1, 7


def blas_call(kind: int, vector: int, cblas: int, wide: int, sizes: tuple[int, int, int], how: int = 0) -> bytes:
    """Return a valid call.

    kind: of the elements; 4: C of f16, too. sizes: m, n, k. how: bits of transpositions, order and factors.
    """
    order = how >> 2 & 1
    kinds = min(kind, 3) | kind >> 2 << 14
    flags = kinds | vector << 2 | cblas << 3 | wide << 4 | order << 5 | (how >> 3 & 7) << 8 | (how >> 6 & 7) << 11
    a, b = how & 1, how >> 1 & 1
    large = max(sizes) > 23
    head = struct.pack(">HH", flags, a | b << 4 | a << 8 | b << 11 | large << 15) + bytes(
        (*sizes, AS_IT_IS, AS_IT_IS, AS_IT_IS)
    )
    strides = bytes((AS_IT_IS, 4, AS_IT_IS, 5, AS_IT_IS)) if vector else bytes([AS_IT_IS] * 3)
    return head + strides + bytes((PLAIN_ENDS, *sizes[:2]))


def call_corpora() -> Iterator[tuple[str, str, bytes]]:
    """Target, file name, bytes."""
    doors = list(itertools.product(range(5), (0, 1), (0, 1)))
    for name, sizes in (("small", (5, 7, 9)), ("one_column", (33, 1, 20)), ("panels", (90, 70, 95))):
        calls = [blas_call(kind, 0, cblas, wide, sizes, 37 * at) for at, (kind, cblas, wide) in enumerate(doors)]
        for at in range(0, len(calls), 6):
            yield "blas", f"{name}_{at // 6}", b"".join(calls[at : at + 6])
    vectors = [blas_call(kind, 1, cblas, wide, (21, 34, 1), 21 * kind) for kind, cblas, wide in doors[:8]]
    yield "blas", "vectors_0", b"".join(vectors[:6])
    yield "blas", "vectors_1", b"".join(vectors[6:])
    # shapes 2 x 5 and 6 x 20 with runs, of sizes too; then what is refused; then another context
    yield "shapes", "usual", bytes.fromhex("00000205 0503 000006 14 0507 0003 0102 05 04 0303 0500")
    yield (
        "shapes",
        "refused",
        bytes.fromhex("000000 00 000001 15 0001 7fffffffffffffff 05 00040101 11 0010 0000 0020 0101 05 00"),
    )
    # save, run, restore twice; what is damaged; reset and run
    yield "states", "usual", bytes.fromhex("0000 0007 0001 0001 0100 0002 0001 0101 0007")
    yield (
        "states",
        "damaged",
        bytes.fromhex("0000 000501 0003 55 0005 02 0014 7f 0015 ff 000508 00000010 000510 0003 07 0001"),
    )
    # registered with one thread; runs of both sizes, one that fails at a call, one of another shape, one without data
    yield "custom_ops", "usual", bytes.fromhex("0100 00 01 0405 08020440")
    yield "custom_ops", "refused", bytes.fromhex("84 05 02 01 08 030a 01 20 40")
    # two graphs of the file's; then one option and two changes, of a tensor's length and of the partitions
    yield "delegate", "usual", bytes.fromhex("00 01 00 00 00 00")
    yield "delegate", "odd", bytes.fromhex("01 03 01 02 00 00 02 01 00000005 0000 0c 01 02 000100000000 00 00 00")
