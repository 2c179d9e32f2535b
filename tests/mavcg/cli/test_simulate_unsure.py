"""`--simulate-unsure` of estimate, select and build, in a fresh folder."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

BOARD = ("--board", "exynos9820")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MAVCG_CACHE that the tests of this module fill: simulations of one are found by the next."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, in the environment."""
    monkeypatch.setenv("MAVCG_CACHE", str(kept))
    return kept


@pytest.mark.long
def test_estimate_says_the_source_of_each_layer(mavcg: Any, tiny_onnx: Path, here: Path, cache: Path) -> None:
    done = mavcg("estimate", tiny_onnx, *BOARD, "--simulate-unsure", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    costs = [cost for layer in document["layers"] for cost in layer["by_cluster"].values()]
    simulated = [cost for cost in costs if cost["source"] == "simulated"]
    assert simulated and all(cost["unsure"] for cost in simulated)
    assert all(cost["source"] == "modelled" for cost in costs if not cost["unsure"])
    assert document["predictions_are"] == "modelled or simulated, not measured"
    assert any((cache / "simulated-steps").iterdir())


@pytest.mark.long
def test_a_build_selects_by_simulated_costs(mavcg: Any, tiny_onnx: Path, here: Path, cache: Path) -> None:
    done = mavcg("build", tiny_onnx, *BOARD, "--simulate-unsure", "-o", "libtiny.so", "--json")
    assert done.status == 0, done.stderr
    assert "is unsure of" in done.stderr and (here / "libtiny.so").exists()
    with sqlite3.connect(cache / "costs.sqlite") as database:
        rows = database.execute("SELECT kind, core, what FROM costs").fetchall()
    assert rows and all(kind == "simulated" and core == "exynos-m4" for kind, core, _ in rows)
    again = mavcg("build", tiny_onnx, *BOARD, "--simulate-unsure", "-o", "libtiny.so", "--json")
    assert "; 0 of them simulated in 0 rounds" in again.stderr
    chosen = mavcg("select", tiny_onnx, *BOARD, "--simulate-unsure", "--json")
    assert "simulated" in {node["cost_is"] for node in json.loads(chosen.stdout)["nodes"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("estimate", "MODEL", *BOARD, "--simulate-unsure", "--sensitivity"), "--sensitivity"),
        (("estimate", "MODEL", "--board", "host", "--simulate-unsure"), "AArch64"),
        (("select", "MODEL", *BOARD, "--simulate-unsure", "--per-cluster"), "--per-cluster"),
        (("build", "MODEL", "--target", "aarch64-linux-musl", "--simulate-unsure"), "--board"),
        (("build", "MODEL", *BOARD, "--strategy", "engine", "--simulate-unsure"), "engine"),
        (("build", "MODEL", "--boards", "exynos9820", "--simulate-unsure"), "--simulate-unsure"),
    ],
)
def test_where_nothing_can_be_simulated(
    mavcg: Any,
    tiny_onnx: Path,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    cache = tmp_path / "fresh"
    monkeypatch.setenv("MAVCG_CACHE", str(cache))
    done = mavcg(*(str(tiny_onnx) if word == "MODEL" else word for word in words))

    assert done.status == 2 and done.stdout == ""
    assert message in done.stderr and not (cache / "costs.sqlite").exists()
