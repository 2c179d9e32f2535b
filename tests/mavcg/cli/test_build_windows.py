"""`mavcg build MODEL --shape x=1x3x5..60x12`: windows over a bounded height, in a built library."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as package
from mavcg.errors import MavcgError
from tests.mavcg.cli.in_process import build_in

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Images, small_cnn  # noqa: E402
from tests.mavcg.cli.guarded import guarded  # noqa: E402

LEAST, MOST = 5, 60


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> tuple[Path, Any]:
    """A network with a free height, a map of a quarter of it as result; and the build's document."""
    folder = tmp_path_factory.mktemp("windows")
    net = Images(1, 3, None, 12)
    small_cnn(net)
    net.save(folder / "m.onnx", dimension="height")
    options = [
        "--shape",
        f"x=1x3x{LEAST}..{MOST}x12",
        "--cores",
        cores[1],
        "-o",
        "libnet.so",
        "--tune",
        "off",
        "--json",
    ]
    return folder, json.loads(build_in(folder, "m.onnx", *options))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_height_has_onnxruntimes_results(built: tuple[Path, Any], threads: int) -> None:
    """Whatever larger images have left behind; the arrays end at pages that cannot be read or written."""
    folder, document = built
    assert document["dimensions"] == {"height": [LEAST, MOST]}
    reference = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    rng = np.random.default_rng(0)
    with package.load(folder / "libnet.so", threads=threads) as model:
        for height in (MOST, LEAST, 6, 7, 8, 9, MOST - 1, 31, 32, 33, MOST, 10):
            memory, x = guarded(rng.standard_normal((1, 3, height, 12)).astype(np.float32))
            (want,) = reference.run(None, {"x": x})
            held, place = guarded(np.zeros_like(want))
            (have,) = model.run(x, out=[place])
            assert have.shape == want.shape == model.outputs[0].shape and memory is not None and held is not None
            assert np.abs(have - want).max() <= 1e-5 * max(1.0, np.abs(want).max())
        for height in (0, 1, LEAST - 1, MOST + 1):
            with pytest.raises(MavcgError, match=f"of {LEAST} to {MOST}"):
                model.run(np.zeros((1, 3, height, 12), np.float32))


def test_a_height_that_is_too_small_ends_the_build(mavcg: Any, here: Path, cores: tuple[str, str]) -> None:
    net = Images(1, 3, None, 12)
    net.conv(4, 5, 5)
    net.save(here / "m.onnx", dimension="height")
    ended = mavcg("build", "m.onnx", "--cores", cores[1], "--shape", "x=1x3x1..60x12")
    assert ended.status == 2 and "at the length 1" in ended.stderr
    assert "the least length that the model takes is 5: give 5..60" in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]
