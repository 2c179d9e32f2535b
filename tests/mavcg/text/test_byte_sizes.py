"""Numbers of bytes as users write them."""

import pytest

from mavcg.text.byte_sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4000000", 4_000_000),
        ("4MB", 4_000_000),
        (" 1.5 KiB ", 1536),
        ("0", 0),
        ("9 B", 9),
        ("", None),
        ("4 mb", None),
        ("-4MB", None),
        ("1e6", None),
        ("٤MB", None),
        ("9" * 400, None),
        ("9" * 305 + "GiB", None),
    ],
)
def test_sizes_are_read_with_their_units(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size


def test_a_unit_may_be_needed() -> None:
    assert parse_bytes("4000000", unit_needed=True) is None
    assert parse_bytes("512 KiB", unit_needed=True) == 512 << 10
