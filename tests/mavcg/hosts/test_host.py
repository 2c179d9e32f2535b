"""--board host: this machine's clusters, whatever was detected."""

import pytest

import mavcg.hosts.host
from mavcg.errors import MavcgError
from mavcg.hosts.host import find_board, host_board
from mavcg.profiles.load import load_board
from mavcg.runtime.binding import DetectedCpu
from mavcg.toolchain.target import host_target


def detected(monkeypatch: pytest.MonkeyPatch, *cores: str | None) -> None:
    cpus = [DetectedCpu(cpu, core, "made up") for cpu, core in enumerate(cores)]
    monkeypatch.setattr(mavcg.hosts.host, "detect", lambda: cpus)


def test_a_cluster_for_each_core_type(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, "cortex-a55", "cortex-a55", "cortex-a76", None, "cortex-a55")
    board = host_board()

    assert [(c.core, c.cpus) for c in board.clusters] == [("cortex-a55", (0, 1, 4)), ("cortex-a76", (2,))]
    assert (board.name, board.target) == ("host", host_target().zig_name)


def test_a_machine_that_nobody_knows_has_no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, None, None)

    assert host_board().clusters == ()


def test_boards_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, "haswell")

    assert find_board("host").cores == ("haswell",)
    assert find_board("exynos9820") == load_board("exynos9820")
    with pytest.raises(MavcgError, match="exynos9820"):
        find_board("exynos9821")
