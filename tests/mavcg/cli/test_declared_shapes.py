"""--ignore-declared-shapes: every verb that reads a model refuses contradicted shapes, and has the option."""

import io
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import typer

from mavcg.cli.app import make_app, run

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")

OPTION = "--ignore-declared-shapes"
SPACES = re.findall(r"```toml\n(.*?)```", (Path(__file__).parents[3] / "docs/exploring.md").read_text(), re.DOTALL)

KINDS = ("accelerator", "target", "board")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with bad.onnx, a convolution whose result is declared as 5 columns wide, and has 6."""
    value, helper = onnx.helper.make_tensor_value_info, onnx.helper
    weights = onnx.helper.make_tensor("w", 1, [4, 3, 3, 3], [0.01 * (i % 7) for i in range(108)])
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "first")]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 3, 8, 8])], [value("y", 1, [1, 4, 6, 5])], [weights])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "bad.onnx"
    )
    (tmp_path / "mavcg.toml").write_text('[[model]]\nfile = "bad.onnx"\nboard = "exynos9820"\n')
    (tmp_path / "app.toml").write_text('[[network]]\nname = "bad"\nfile = "bad.onnx"\nperiod_ms = 9\n')
    for kind in KINDS:
        (tmp_path / f"{kind}s.toml").write_text(next(text for text in SPACES if f"[{kind}]" in text))
    return tmp_path


def called(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run mavcg in this process. Returns: exit status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        status = run([*arguments])
    return status, out.getvalue(), err.getvalue()


VERBS = {
    "build": ("build", "bad.onnx", "--board", "exynos9820"),
    "partial": ("build", "bad.onnx", "--board", "exynos9820", "--partial"),
    "project": ("build",),
    "boards": ("build", "bad.onnx", "--boards", "exynos9820", "--workers", "0"),
    "estimate": ("estimate", "bad.onnx", "--board", "exynos9820"),
    "select": ("select", "bad.onnx", "--board", "exynos9820"),
    "plan": ("plan", "bad.onnx", "--board", "exynos9820"),
    "tune": ("tune", "bad.onnx", "--board", "exynos9820", "--runner", "simulate"),
    "app plan": ("app", "plan", "app.toml", "--board", "exynos9820"),
    "app simulate": ("app", "simulate", "app.toml", "--board", "exynos9820"),
    "app build": ("app", "build", "app.toml", "--board", "exynos9820"),
    "accel build": ("accel", "build", "bad.onnx", "--target", "zu2", "-o", "bad.elf"),
    "accel fuse": ("accel", "fuse", "bad.onnx", "--target", "zu2"),
} | {f"explore {kind}s": ("explore", "bad.onnx", "--workers", "0", "--space", f"{kind}s.toml") for kind in KINDS}


@pytest.mark.parametrize("verb", VERBS)
def test_a_contradiction_is_refused_by_every_verb(folder: Path, verb: str) -> None:
    before = set(folder.iterdir())
    status, _, err = called(folder, *VERBS[verb])

    assert status == 2
    assert err.count(
        "\n"
    ) <= 2 and "node 'first' (Conv): the shape of %y is 1x4x6x6, but the file declares 1x4x6x5" in (
        err.replace("\n", " ")
    )
    assert OPTION in err and set(folder.iterdir()) - before <= {folder / "libraries"}


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param("build", marks=pytest.mark.long),
        pytest.param("partial", marks=pytest.mark.long),
        pytest.param("project", marks=pytest.mark.long),
        pytest.param("estimate", marks=pytest.mark.long),
        "select",
        "plan",
        "accel fuse",
    ],
)
def test_the_option_takes_the_model(folder: Path, verb: str) -> None:
    more = ["--min-share", "0"] if verb == "partial" else []
    status, _, err = called(folder, *VERBS[verb], OPTION, *more)

    assert status == 0, err


def options_of(group: Any, path: str = "") -> dict[str, set[str]]:
    """The options of every verb below a group, by the verb's name."""
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= options_of(command, f"{path}{name} ")
        else:
            found[f"{path}{name}"] = {text for parameter in command.params for text in parameter.opts}
    return found


def test_every_verb_that_takes_shapes_has_the_option() -> None:
    options = options_of(typer.main.get_command(make_app()))
    having = {verb for verb, texts in options.items() if OPTION in texts}

    assert {verb for verb, texts in options.items() if "--shape" in texts} <= having
    assert having == {
        "accel build",
        "accel fuse",
        "accel validate",
        "app build",
        "app plan",
        "app simulate",
        "build",
        "estimate",
        "explore",
        "plan",
        "select",
        "tune",
    }
