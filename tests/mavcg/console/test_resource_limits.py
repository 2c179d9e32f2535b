"""What a build may take: options, keys of mavcg.toml, and what is left behind by one that takes more."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.console import resource_limits
from mavcg.console.resource_limits import FEWEST_BYTES, ResourceLimits, build_limits, enforce_limits
from mavcg.errors import MavcgError

onnx = pytest.importorskip("onnx")


def write_model(path: Path, width: int) -> Path:
    """A small file: a product with weights of width * width elements that the import makes."""
    helper = onnx.helper
    shape = onnx.numpy_helper.from_array(np.array([width, width]), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], "fill", value=helper.make_tensor("v", 1, [1], [0.5])),
        helper.make_node("MatMul", ["x", "w"], ["y"], "product"),
    ]
    values = [helper.make_tensor_value_info(name, 1, [1, width]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [shape])
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    assert path.stat().st_size < 400
    return path


def test_values_and_defaults(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(bytes(2_000_000))

    assert build_limits(None, None, model).seconds == 960
    assert build_limits(5.5, "2GiB", model) == ResourceLimits(5.5, 2 << 30)
    assert build_limits(5.5, "1.5 GB") == ResourceLimits(5.5, 1_500_000_000)
    assert build_limits(None, 500_000_000) == ResourceLimits(3600, 500_000_000)
    assert (build_limits(None, None).memory_bytes or FEWEST_BYTES) >= FEWEST_BYTES


@pytest.mark.parametrize(
    ("seconds", "memory", "message"),
    [
        (0, None, "--max-seconds 0"),
        (float("nan"), None, "--max-seconds nan"),
        (-1, None, "--max-seconds"),
        (None, "4 parsecs", "--max-memory 4 parsecs: is not a size"),
        (None, "1e999GB", "--max-memory"),
        (None, "3", "--max-memory 3: is less than any build takes"),
        (None, "", "--max-memory"),
        (None, "4e9", "--max-memory 4e9: is not a size"),
    ],
)
def test_bad_values_are_named(seconds: float | None, memory: str | None, message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        build_limits(seconds, memory)


def test_a_long_build_says_what_it_does(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line tells the progress without a terminal: after 10 s of CPU, at each doubling, or a minute of waiting."""
    monkeypatch.setattr(resource_limits, "_REPORT_S", 0.02)
    monkeypatch.setattr(resource_limits, "_POLL_S", 0.001)
    with enforce_limits(ResourceLimits(60, None), "net.onnx") as progress:
        progress("folding constants")
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
    busy = capfd.readouterr().err.splitlines()
    assert 2 <= len(busy) <= 5
    assert all(re.fullmatch(r"mavcg: net\.onnx: \d+ s while folding constants", line) for line in busy)

    with enforce_limits(ResourceLimits(60, None), "net.onnx") as progress:
        progress("reading")
        time.sleep(0.3)
    assert re.search(r"^mavcg: net\.onnx: \d+ s while reading$", capfd.readouterr().err, re.M)

    monkeypatch.setattr(resource_limits, "_REPORT_S", 10.0)
    with enforce_limits(ResourceLimits(60, None), "net.onnx"):
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


def test_memory_that_cannot_be_had_is_named() -> None:
    with pytest.raises(
        MavcgError, match="net.onnx: while folding: more memory is needed than is available.*allow more"
    ):
        with enforce_limits(ResourceLimits(60, None), "net.onnx") as progress:
            progress("folding")
            np.zeros(1 << 60, np.uint8)


@pytest.mark.parametrize(("option", "value"), [("--max-seconds", "0.5"), ("--max-memory", "200MB")])
def test_a_build_over_its_limit_is_refused_and_leaves_nothing(
    shell: Callable[[str], Any], here: Path, option: str, value: str
) -> None:
    write_model(here / "net.onnx", 11_000)

    done = shell(f"mavcg build net.onnx --cores generic -o libnet.so {option} {value}")

    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mavcg: net.onnx: {option} ") and "(while " in line and "allow more" in line
    assert done.stdout == "" and [path.name for path in here.iterdir()] == ["net.onnx"]


@pytest.mark.long
def test_keys_of_the_build_file(shell: Callable[[str], Any], here: Path) -> None:
    write_model(here / "net.onnx", 11_000)
    table = '[[model]]\nfile = "net.onnx"\ncores = ["generic"]\n'
    (here / "mavcg.toml").write_text(f"{table}max_seconds = 0.5\n")

    done = shell("mavcg build")
    assert done.returncode == 2 and "net.onnx: --max-seconds 0.5: the build takes longer" in done.stderr

    (here / "mavcg.toml").write_text(f'{table}max_memory = "x"\n')
    done = shell("mavcg build")
    assert done.returncode == 2 and "mavcg.toml: model[0].max_memory x: is not a size" in done.stderr
