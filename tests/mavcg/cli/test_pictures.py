"""Every option of the command line that names a picture takes .svg and .png alike, and refuses the rest in one way."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from mavcg.cli.app import make_app

pytest.importorskip("matplotlib")

REPORT = Path(__file__).parents[3] / "examples/edge_app/recorded-perf-report.txt"
SPACE = """[accelerator]
mem_size = [64, 32, 64]
pe_len = [[8, 8], [16, 16]]
pe_mapping = [["IC"], ["OC"]]
bandwidth = 10
frequency = 1
"""
# A command line for each verb that has such an option; {tiny}: a small network, {dot}: an assembly file,
# {space}: a design space, {samples}: a folder of the network's inputs.
COMMANDS = {
    ("profile", "--plot"): ["--import", str(REPORT)],
    ("estimate", "--plot"): ["{tiny}", "--board", "exynos9820"],
    ("explain", "--svg"): ["{dot}", "dot", "--core", "cortex-a55"],
    ("plan", "--plot"): ["alexnet", "--accelerator", "setup-a", "--layer", "conv5"],
    ("explore", "--plot"): ["alexnet", "--space", "{space}"],
    ("select", "--plot"): ["{tiny}", "--board", "exynos9820"],
    ("quantise", "--plot"): ["{tiny}", "--inputs", "{samples}", "--board", "exynos9820", "--mixtures", "0"],
}


def picture_options() -> Iterator[tuple[str, str]]:
    """(verb, option) of every option that is called as pictures are."""
    group: Any = typer.main.get_command(make_app())
    for verb, command in group.commands.items():
        for parameter in command.params:
            for name in parameter.opts:
                if name in ("--plot", "--svg", "--png", "--picture", "--chart"):
                    yield verb, name


def test_no_picture_option_is_left_out() -> None:
    assert set(picture_options()) == set(COMMANDS)


# Verbs that search or build take seconds for each picture; the tests of these verbs draw one.
QUICK = ("profile", "explain")


@pytest.mark.parametrize(
    ("verb", "option"),
    [pytest.param(*both, marks=() if both[0] in QUICK else pytest.mark.long) for both in COMMANDS],
)
def test_svg_and_png_alike(mavcg: Any, tiny_onnx: Path, dot_file: Path, verb: str, option: str) -> None:
    space = dot_file.parent / "space.toml"
    space.write_text(SPACE)
    here = dot_file.parent
    samples = here / "samples"
    samples.mkdir(exist_ok=True)
    np.savez(samples / "one.npz", image=np.ones((1, 4, 6, 6), np.float32), other=np.ones((2, 3), np.float32))
    places = {"tiny": tiny_onnx, "dot": dot_file, "space": space, "samples": samples}
    words = [word.format(**places) for word in COMMANDS[verb, option]]
    for ending in ("svg", "png"):
        done = mavcg(verb, *words, option, f"picture.{ending}")
        assert done.status == 0, done.stderr
    assert ElementTree.parse(here / "picture.svg").getroot().tag.endswith("svg")
    head = (here / "picture.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n") and int.from_bytes(head[16:20]) > 200  # its width

    if verb != "plan":  # where another name is a folder's
        done = mavcg(verb, *words, option, "picture.pdf")
        assert done.status == 2 and f"{option} picture.pdf: pictures are .svg or .png" in done.stderr
        assert not (here / "picture.pdf").exists()
