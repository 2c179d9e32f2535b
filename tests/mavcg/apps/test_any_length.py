"""Networks of any length in an application: the bits of libraries of their own, pipelines of frames of any length."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.apps.small_networks import write_network
from tests.mavcg.apps.test_library import QUICK

pytest.importorskip("onnx")

from tests.mavcg.choose.lengths.bounded_models import Array, Tokens  # noqa: E402
from tests.mavcg.cli.guarded import guarded  # noqa: E402

HERE = Path(__file__).parent
Mavcg = Callable[..., Any]
MOST, WIDTH, RESULTS = 40, 16, 24  # of use_lengths.c
LENGTHS = (MOST, 1, 7, 2, 33, 7, MOST - 1)
SHAPES = f'shapes = {{ x = [1, "1..{MOST}", {WIDTH}] }}\n'
APPLICATION = f"""\
[[network]]
name = "encoder"
file = "net.onnx"
{SHAPES}
[[network]]
name = "fixed"
file = "fixed.onnx"

[[network]]
name = "stages"
file = "net.onnx"
partitions = ["layernormalization_3", "matmul_12"]
{SHAPES}"""


def write_networks(folder: Path) -> None:
    """net.onnx with attention between tokens, to an output for each token, and fixed.onnx of one shape."""
    net = Tokens(WIDTH)
    net.linear(RESULTS)
    net.norm()
    net.residual()
    net.attention(heads=1)
    net.linear(RESULTS)
    net.save(folder / "net.onnx")
    write_network(folder / "fixed.onnx", 8, 12, 0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libapp.so of APPLICATION, and libnet.so of net.onnx alone."""
    from mavcg.cli.app import run

    folder = tmp_path_factory.mktemp("lengths")
    write_networks(folder)
    (folder / "app.toml").write_text(APPLICATION)
    assert run(["app", "build", str(folder / "app.toml"), "-o", str(folder / "libapp.so"), *QUICK]) == 0
    shape = f"x=1x1..{MOST}x{WIDTH}"
    net, own = str(folder / "net.onnx"), str(folder / "libnet.so")
    assert run(["build", net, "--shape", shape, "-o", own, *QUICK]) == 0
    return folder


def tokens(length: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((1, length, WIDTH)).astype(np.float32)


def image() -> Array:
    return np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)


def alone(folder: Path, arrays: list[Array]) -> list[bytes]:
    with mavcg.load(folder / "libnet.so") as model:
        return [model.run(x)[0].tobytes() for x in arrays]


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 3])
def test_runs_of_any_length_take_turns_with_other_networks(built: Path, threads: int) -> None:
    """The arrays end at pages that cannot be read or written; the arena is that of the longest length."""
    arrays = [tokens(length) for length in LENGTHS]
    expected = alone(built, arrays)
    with mavcg.load(built / "libnet.so") as own:
        own_bytes = own.arena_bytes
    with mavcg.load_application(built / "libapp.so", threads=threads) as app:
        encoder = app["encoder"]
        assert encoder.dimensions == {"tokens": (1, MOST)} and encoder.arena_bytes == own_bytes
        assert not app["fixed"].dimensions
        assert app.arena_bytes == max(app[name].arena_bytes for name in app.networks)
        (still,) = app["fixed"].run(image())
        for x, right in zip(arrays, expected, strict=True):
            memory, given = guarded(x)
            over, out = guarded(np.zeros((1, x.shape[1], RESULTS), np.float32))
            assert encoder.run(given, out=out)[0].tobytes() == right and memory and over
            assert app["stages"].run(x)[0].tobytes() == right
            assert app["fixed"].run(image())[0].tobytes() == still.tobytes()


@pytest.mark.long
@pytest.mark.parametrize("cpus", [None, [{0, 1}, {0}, {1}]])
def test_frames_of_a_pipeline_have_lengths_of_their_own(built: Path, cpus: Any) -> None:
    arrays = [tokens(LENGTHS[i % len(LENGTHS)], i) for i in range(40)]
    expected = alone(built, arrays)
    with mavcg.load_application(built / "libapp.so", stages=None if cpus is None else {"stages": cpus}) as app:
        pipeline = app.pipeline("stages")
        assert pipeline.stages == 3
        made = list(pipeline.map(arrays))
        assert [y.shape for (y,) in made] == [(1, x.shape[1], RESULTS) for x in arrays]
        assert [y.tobytes() for (y,) in made] == expected
        assert app["stages"].run(arrays[2])[0].tobytes() == expected[2]
        assert [y.tobytes() for (y,) in pipeline.map(arrays[:9])] == expected[:9]


@pytest.mark.long
def test_lengths_out_of_bounds_are_refused_and_change_nothing(built: Path) -> None:
    x = tokens(7)
    (right,) = alone(built, [x])
    with mavcg.load_application(built / "libapp.so") as app:
        pipeline = app.pipeline("stages")
        assert pipeline.push(x)
        for shape in ((1, 0, WIDTH), (1, MOST + 1, WIDTH), (1, 7, WIDTH + 1), (2, 7, WIDTH), (7, WIDTH)):
            for run in (app["encoder"].run, pipeline.push):
                with pytest.raises(MavcgError, match=f"do not fit .* the dimension tokens of 1 to {MOST}"):
                    run(np.zeros(shape, np.float32))
        with pytest.raises(MavcgError, match="float64"):
            pipeline.push(np.zeros((1, 3, WIDTH)))
        outputs = pipeline.pop()
        assert outputs is not None and outputs[0].tobytes() == right and pipeline.pop(timeout=0) is None
        assert app["encoder"].run(x)[0].tobytes() == right


@pytest.mark.long
def test_in_c(built: Path) -> None:
    program = built / "use_lengths"
    flags = ["-target", host_target().zig_name, "-O2", *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", "-pthread"]
    run_zig(
        "cc",
        [*flags, f"-I{built}", str(HERE / "use_lengths.c"), f"-L{built}", "-lapp", "-o", str(program)],
        "compiling a program",
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    done = subprocess.run([program], cwd=built, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.long
def test_reports_have_the_bounds(built: Path, mavcg: Mavcg) -> None:
    ended = mavcg("inspect", built / "libapp.so")
    assert ended.status == 0 and f"encoder: tokens: 1 to {MOST}, in each run anew" in ended.stdout, ended.stderr
    networks = json.loads(mavcg("inspect", built / "libapp.so", "--json").stdout)["networks"]
    assert [network["dimensions"] for network in networks] == [{"tokens": [1, MOST]}, {}, {"tokens": [1, MOST]}]
    header = (built / "app.h").read_text()
    assert f"x: f32[1,tokens,{WIDTH}]" in header and "encoder_set_shape" in header


@pytest.mark.long
def test_a_plan_is_that_of_the_longest_lengths(built: Path, mavcg: Mavcg) -> None:
    ended = mavcg("app", "plan", built / "app.toml", "--board", "exynos9820", "--generations", "1", "--json")
    assert ended.status == 0, ended.stderr
    networks = {network["name"]: network for network in json.loads(ended.stdout)["networks"]}
    assert networks["encoder"]["dimensions"] == {"tokens": [1, MOST]} and networks["fixed"]["dimensions"] == {}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SHAPES, SHAPES + 'schedule = "a"\n', "line 5: network[0].schedule: a schedule orders the rows of one length"),
        ('"1..40"', '"1..40", 3', "line 4: network[0].shapes: network 'encoder': "),
        (f"{WIDTH}]", f"{WIDTH - 1}]", "in an application give such an axis one length"),
    ],
)
def test_what_cannot_be_built_is_refused(old: str, new: str, words: str, tmp_path: Path, mavcg: Mavcg) -> None:
    write_networks(tmp_path)
    (tmp_path / "app.toml").write_text(APPLICATION.replace(old, new, 1))
    ended = mavcg("app", "build", tmp_path / "app.toml", "-o", tmp_path / "libapp.so", *QUICK)

    assert (ended.status, ended.stdout) == (2, "") and words in ended.stderr and "app.toml" in ended.stderr
    assert not (tmp_path / "libapp.so").exists()
