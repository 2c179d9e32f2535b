"""Inputs of C targets whose bytes are calls of a library: shapes, states. Their sources say what bytes mean."""

from collections.abc import Iterator


def call_corpora() -> Iterator[tuple[str, str, bytes]]:
    """Target, file name, bytes."""
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
