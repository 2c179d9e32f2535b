"""docs/add-a-core.md and docs/add-a-board.md as a newcomer follows them: what they show must work as it stands."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mavcg.cli.cores import cores
from mavcg.profiles.audit import audit
from mavcg.profiles.board_files import BOARD_KEYS, CLUSTER_KEYS
from mavcg.profiles.core_files import CORE_KEYS
from mavcg.profiles.load import cores_for, load_board, load_core, load_cores
from mavcg.profiles.timing import load_timing
from mavcg.profiles.timing_rows import ClassRow

ROW_KEYS = [name for name in ClassRow.__struct_fields__ if name != "source"]
RULES = ("sources", "forward", "[no_dual_issue]", "[issue_distance]", "loads")
DOCS = Path(__file__).parents[2] / "docs"


def follow(page: str, folder: Path) -> Path:
    """Put the TOML that the page shows where its first line says; the file's path."""
    text = re.search(r"```toml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert text is not None
    place = re.match(r"# (\S+\.toml)\n", text[1])
    assert place is not None
    path = folder / place[1]
    path.parent.mkdir(parents=True)
    path.write_text(text[1])
    return path


def listed(*arguments: str) -> dict[str, list[dict[str, object]]]:
    app = typer.Typer()
    app.command()(cores)
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    told: dict[str, list[dict[str, object]]] = json.loads(result.stdout)
    return told


def test_the_core_of_the_page_is_listed_and_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = follow("add-a-core.md", tmp_path)
    assert path.stem not in load_cores(), "the page's core is one of ours now: show another one"
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert audit() == ()
    assert path.stem in [core["name"] for core in listed()["cores"]]
    assert [core["name"] for core in listed(path.stem)["cores"]] == [path.stem]
    assert [core.name for core in cores_for([path.stem, "cortex-a78"])] == [path.stem, "cortex-a78"]
    assert load_core(path.stem).midr[0].matches(0x410FD8F0)


def test_the_timing_of_the_page_goes_with_its_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = follow("add-a-core.md", tmp_path)
    first, second = re.findall(r"```toml\n(.*?)```", (DOCS / "add-a-core.md").read_text(), re.DOTALL)
    path.write_text(first + second)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    core = load_core(path.stem)
    timing = load_timing(core)

    assert audit() == ()
    assert (core.policy.split, core.policy.unpair, core.policy.schedule) == (True, False, True)
    assert (timing.width, timing.of("ldr_q").blocks, timing.latency("fmla_d", "fmla_q", "acc")) == (1, 2, 2)
    assert timing.of("dot_d").source == "measured on a board, 2026-11; LLVM 22 AArch64SchedA320.td: 2 a cycle"
    assert "ins" not in timing.no_dual_issue[0].those and "fmla_d" in timing.no_dual_issue[0].those


def test_the_board_of_the_page_is_listed_and_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = follow("add-a-board.md", tmp_path)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert audit() == ()
    assert path.stem in [board["name"] for board in listed()["boards"]]
    assert load_board(path.stem).cores == ("cortex-a53", "cortex-a73")


@pytest.mark.parametrize(
    ("page", "keys"),
    [
        ("add-a-core.md", (*CORE_KEYS[:-1], "[llvm]", *ROW_KEYS, *(f"[{name}]" for name in RULES))),
        ("add-a-board.md", (*sorted({*BOARD_KEYS} - {"clusters"}), "[[clusters]]", *CLUSTER_KEYS)),
    ],
)
def test_the_page_explains_every_key(page: str, keys: tuple[str, ...]) -> None:
    text = (DOCS / page).read_text()

    assert [key for key in keys if f"`{key}`" not in text] == []


def test_the_recording_commands_take_this_machines_files(tmp_path: Path) -> None:
    script = re.search(r"```sh\n(.*?)```", (DOCS / "add-a-board.md").read_text(), re.DOTALL)
    assert script is not None

    subprocess.run(["sh", "-c", script[1]], cwd=tmp_path, check=False)

    recorded = tmp_path / "recorded"
    assert "processor" in (recorded / "proc/cpuinfo").read_text()
    present = Path("/sys/devices/system/cpu/present").read_text()
    assert (recorded / "sys/devices/system/cpu/present").read_text() == present


def test_pages_link_to_files_that_exist() -> None:
    for page in ("add-a-core.md", "add-a-board.md"):
        for target in re.findall(r"\]\(([^)]+)\)", (DOCS / page).read_text()):
            assert (DOCS / target.partition("#")[0]).is_file(), f"{page}: {target}"
