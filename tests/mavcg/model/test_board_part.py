"""The part of a board that `mavcg estimate --core C --mhz N` predicts for."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.model.estimating import board_part
from mavcg.profiles.load import load_board


def test_a_board_is_its_clusters_of_one_core_with_their_sources() -> None:
    board = load_board("rk3588")
    little, *big = board.clusters
    assert board_part(board, None, None) == board
    assert board_part(board, "cortex-a55", None).clusters == (little,)
    part = board_part(board, "cortex-a76", None)
    assert part.clusters == tuple(big) and part.l3_bytes == board.l3_bytes
    before, after = dict(board.sources), dict(part.sources)
    assert after["clusters[0].max_khz"] == before["clusters[1].max_khz"]
    assert after["l3_bytes"] == before["l3_bytes"] and not [place for place in after if place.startswith("clusters[2]")]


def test_a_clock_is_of_one_core_type() -> None:
    board = load_board("rk3588")
    little = board.clusters[0]
    assert board_part(board, "cortex-a55", 1416.0).clusters == (replace(little, max_khz=1_416_000),)
    with pytest.raises(MavcgError, match="--mhz 1416: rk3588 has cortex-a55, cortex-a76"):
        board_part(board, None, 1416.0)


def test_a_core_that_a_board_has_not_is_refused() -> None:
    with pytest.raises(MavcgError, match="--core cortex-a72: rk3588 has no such core; it has cortex-a55, cortex-a76"):
        board_part(load_board("rk3588"), "cortex-a72", None)
