"""`mavcg memory`, run as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"  # MiniMalloc's README


def test_json_has_what_scripts_rely_on(mavcg: Any, tmp_path: Path) -> None:
    (tmp_path / "F.csv").write_text(EXAMPLE)
    done = mavcg("memory", "--instance", tmp_path / "F.csv", "--capacity", "12", "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == {"offsets", "peak", "lower_bound", "optimal"}
    assert (document["peak"], document["lower_bound"], document["optimal"]) == (12, 12, True)
    assert set(document["offsets"]) == {"b1", "b2", "b3", "b4", "b5"}
    assert sorted(document["offsets"][name] for name in ("b1", "b3", "b5")) == [0, 4, 8]


def test_without_a_capacity_and_as_a_table(mavcg: Any, tmp_path: Path) -> None:
    (tmp_path / "F.csv").write_text(EXAMPLE.replace("id,lower,upper", "buffer,start,end"))
    done = mavcg("memory", "--instance", tmp_path / "F.csv")

    assert done.status == 0, done.stderr
    assert "5 buffers in 12; optimal" in done.stdout


def test_what_cannot_be_is_refused(mavcg: Any, tmp_path: Path) -> None:
    (tmp_path / "F.csv").write_text(EXAMPLE)
    tight = "id,lower,upper,size\na,0,2,2\nb,1,4,1\nc,3,6,2\nd,5,8,1\n"
    (tmp_path / "tight.csv").write_text(tight)
    for arguments, words in (
        (("F.csv", "--capacity", "11"), "--capacity 11: buffers that are live together need 12"),
        (("none.csv",), "none.csv: cannot be read"),
        (("F.csv", "--nodes", "0"), "--nodes 0"),
        (("F.csv", "--capacity", "-1"), "--capacity -1"),
    ):
        done = mavcg("memory", "--instance", tmp_path / arguments[0], *arguments[1:])
        assert done.status == 2 and words in done.stderr.replace("\n", " "), done.stderr
    assert mavcg("memory", "--instance", tmp_path / "tight.csv", "--capacity", "3").status == 0


def test_a_line_end_in_a_cell_begins_no_line(mavcg: Any, tmp_path: Path) -> None:
    """Whatever the file is, its text cannot look like another message of mavcg's, nor a row of the table."""
    (tmp_path / "a.csv").write_text('"a\nmavcg: done",1,2\n')
    (tmp_path / "b.csv").write_text('id,lower,upper,size\n"x\nmavcg: done",0,1,"2\nmavcg: done"\n')
    (tmp_path / "c.json").write_text('{"a\\n": "\n mavcg: done"}\n')
    for name in ("a.csv", "b.csv", "c.json"):
        done = mavcg("memory", "--instance", tmp_path / name)
        assert done.status == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    (tmp_path / "d.csv").write_text('id,lower,upper,size\n"x\nmavcg: done",0,1,2\n')
    assert "\nmavcg" not in mavcg("memory", "--instance", tmp_path / "d.csv").stdout


@pytest.mark.long
@pytest.mark.parametrize("address_space_kb", [200_000])
def test_a_build_without_address_space_says_memory(address_space_kb: int, tiny_onnx: Path, here: Path) -> None:
    """To the letter: with `ulimit -v 200000`, a model's build."""
    command = f"ulimit -v {address_space_kb}; exec {sys.executable} -m mavcg.cli build {tiny_onnx} --board exynos9820"
    few = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}  # each of its threads reserves address space
    done = subprocess.run(["sh", "-c", f"{command} -o libtiny.so"], capture_output=True, text=True, env=few)

    assert done.returncode == 2 and "memory" in done.stderr and "pip install" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not list(here.iterdir())
