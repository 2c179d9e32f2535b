"""`mavcg explore` as docs/exploring.md has it."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[4] / "docs/exploring.md").read_text()


@pytest.fixture
def space(here: Path) -> Path:
    path = here / "space.toml"
    text = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    path.write_text(text[1])
    return path


@pytest.mark.long
def test_the_space_of_the_page(mavcg: Any, here: Path, space: Path) -> None:
    done = mavcg("explore", "squeezenet", "alexnet", "--space", "space.toml", "-o", "net.sqlite", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    assert document["points"] == 1152 == document["planned"] + document["pruned"]
    assert document["front"] and set(document["front"][0]) == {"point", "metrics"}
    with sqlite3.connect(here / "net.sqlite") as database:
        states = dict(database.execute("SELECT state, count(*) FROM points GROUP BY state").fetchall())
        on_front = database.execute("SELECT count(*) FROM points WHERE front").fetchone()[0]
    assert states.get("pruned", 0) == document["pruned"] and on_front == len(document["front"])

    words = ("squeezenet", "alexnet", "--space", "space.toml", "-o", "net.sqlite", "--no-prune", "--json")
    whole = json.loads(mavcg("explore", *words).stdout)
    assert (whole["planned"], whole["pruned"], whole["front"]) == (1152, 0, document["front"])


def test_a_point_is_an_accelerators_file(mavcg: Any, here: Path, space: Path) -> None:
    space.write_text(re.sub("precision = .*", "", space.read_text()))
    document = json.loads(mavcg("explore", "alexnet", "--space", "space.toml", "--json").stdout)
    for of_front in document["front"][:3]:
        (here / "best.json").write_text(json.dumps(of_front["point"]))
        planned = json.loads(mavcg("plan", "alexnet", "--accelerator", "./best.json", "--json").stdout)
        metrics = of_front["metrics"]
        assert metrics["traffic"] == sum(sum(of["traffic_bytes"].values()) for of in planned["layers"])
        assert metrics["latency"] == pytest.approx(sum(of["seconds"] for of in planned["layers"]))


def test_the_table_has_the_front_of_the_objectives(mavcg: Any, space: Path) -> None:
    done = mavcg("explore", "squeezenet", "--space", "space.toml", "--objective", "latency,area")

    assert done.status == 0 and "on the front of latency, area" in done.stdout
    assert "latency ms" in done.stdout and "energy and area by 45nm" in done.stdout.replace("\n", " ")


def test_bad_input_is_refused_with_a_reason(mavcg: Any, here: Path, space: Path) -> None:
    for words, message in (
        (["squeezenet", "squeezenet", "--space", "space.toml"], "squeezenet: is named twice"),
        (["squeezenext", "--space", "space.toml"], "squeezenext: is neither a file nor a built-in network"),
        (["squeezenet", "--space", "none.toml"], "none.toml: cannot be read"),
        (["squeezenet", "--space", "space.toml", "-o", "space.toml"], "space.toml: cannot be used as a database"),
        (["squeezenet", "--space", "space.toml", "--objective", "speed"], "'speed' is not an objective"),
        (["squeezenet", "--space", "space.toml", "--workers", "some"], "--workers some: is neither a number"),
        (["squeezenet", "--space", "space.toml", "--plot", "front.pdf"], "pictures are .svg or .png"),
    ):
        done = mavcg("explore", *words)
        assert done.status == 2 and message in done.stderr and done.stdout == "", done.stderr


def test_no_point_has_a_tiling(mavcg: Any, here: Path) -> None:
    (here / "small.toml").write_text(
        "[accelerator]\nmem_size = 0.25\npe_len = [1, 1]\npe_mapping = [[], []]\nbandwidth = [1, 2]\nfrequency = 1\n"
    )
    done = mavcg("explore", "alexnet", "--space", "small.toml", "--json")

    document = json.loads(done.stdout)
    assert (done.status, document["front"], document["infeasible"]) == (0, [], 2)
    assert "on none of the 2 points does each layer have a tiling" in done.stderr
