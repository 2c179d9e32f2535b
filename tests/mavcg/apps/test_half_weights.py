"""Weights of an application's networks in fewer bits: their bytes, their error, and a library on this machine."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load_application
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_documents import library_json
from mavcg.apps.library_plan import plan_library
from mavcg.errors import MavcgError
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.specs.channel_scales import rounded_to_eight_bits
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.small_networks import image, write_application

Mavcg = Callable[..., Any]
CORES = "haswell" if host_target().arch == "x86_64" else "cortex-a55"
QUICK = ("--cores", CORES, "--target", host_target().zig_name, "--tune", "off")


def planned(file: Path) -> dict[str, Any]:
    request, _ = make_model_request(file, str(file.parent / "libapp.so"), ModelOptions(cores=("cortex-a55",)))
    return library_json(plan_library(read_application_file(file), request))


def assert_detector_computes_with(weights: Sequence[Any], library: Path) -> None:
    """Compare the detector's output with NumPy's in f64, and its bits with one and three threads."""
    x = image("detector")
    right = convolution(np.maximum(convolution(x.astype(np.float64), weights[0], 1), 0), weights[1], 2).mean((2, 3))
    made = []
    for threads in (1, 3):
        with load_application(library, threads=threads) as app:
            made.append(app["detector"].run(x)[0])
    assert made[0].tobytes() == made[1].tobytes()
    np.testing.assert_allclose(made[0].reshape(right.shape), right, rtol=0, atol=2e-6 * np.abs(right).max() + 1e-6)


@pytest.mark.long
def test_weights_take_half_the_bytes(tmp_path: Path) -> None:
    """In all layers of a network that says so, also in those that compute by Winograd's algorithm otherwise."""
    pytest.importorskip("onnx")
    file = write_application(tmp_path, recogniser='weights = "f16"', tracker='weights = "bf16"')
    networks = {network["name"]: network for network in planned(file)["networks"]}

    assert networks["detector"]["stored_weights"] is None
    for name, dtype, channels, error in (("recogniser", "f16", 32, 1e-3), ("tracker", "bf16", 8, 8e-3)):
        stored, half = networks[name]["stored_weights"], 2 * 9 * (channels * 3 + channels * channels)
        assert (stored["type"], len(stored["layers"]), stored["saved_bytes"]) == (dtype, 2, half)
        assert 0 < stored["measured_error"] < error
        assert half <= networks[name]["weight_bytes"] < half + 1024  # biases, in f32


def test_a_bounded_dimension_is_refused(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, tracker='weights = "f16"\nshapes = { x = "1x3x48x8..48" }')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *QUICK)
    assert ended.status == 2 and "weights = 'f16': which layers have them is chosen for one length" in ended.stderr


@pytest.mark.long
def test_a_library_computes_with_the_rounded_weights(tmp_path: Path, mavcg: Mavcg) -> None:
    """Beside NumPy in f64 with weights rounded to f16; the same bits with any number of threads."""
    onnx = pytest.importorskip("onnx")
    file = write_application(tmp_path, detector='weights = "f16"')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", "--json", *QUICK)
    assert ended.status == 0, ended.stderr
    (network,) = (n for n in json.loads(ended.stdout)["networks"] if n["stored_weights"])
    assert network["name"] == "detector"
    ended = mavcg("inspect", tmp_path / "libapp.so")
    assert "detector: weights of 2 layers in f16" in " ".join(ended.stdout.split())

    model = onnx.load(tmp_path / "detector.onnx")
    weights = [onnx.numpy_helper.to_array(t).astype(np.float16).astype(np.float64) for t in model.graph.initializer]
    assert_detector_computes_with(weights, tmp_path / "libapp.so")


@pytest.mark.long
def test_weights_in_8_bits_take_a_quarter_within_the_limit(tmp_path: Path) -> None:
    """As many layers as keep max_error have them; a limit that none keeps leaves all in f32."""
    pytest.importorskip("onnx")
    tight = 'weights = "int8"\nmax_error = 1e-7'
    file = write_application(tmp_path, recogniser='weights = "int8"\nmax_error = 0.02', tracker=tight)
    networks = {network["name"]: network for network in planned(file)["networks"]}

    stored, elements = networks["recogniser"]["stored_weights"], 9 * (32 * 3 + 32 * 32)
    assert (stored["type"], len(stored["layers"])) == ("i8", 2)
    assert stored["saved_bytes"] == 3 * elements - 2 * 32 * 4  # a scale for each output channel
    assert 1e-4 < stored["measured_error"] < 0.02
    assert elements <= networks["recogniser"]["weight_bytes"] < elements + 1024  # biases and scales, in f32
    assert networks["tracker"]["stored_weights"]["layers"] == []
    assert networks["tracker"]["weight_bytes"] >= 4 * 9 * (8 * 3 + 8 * 8)


def test_a_limit_of_the_error_needs_weights_in_8_bits(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    for keys, message in (
        ("max_error = 0.01", "max_error: is there without weights in 8 bits"),
        ('weights = "f16"\nmax_error = 0.01', "max_error: is there without weights in 8 bits"),
        ('weights = "int8"\nmax_error = 0', "max_error"),
        ('weights = "int4"', "give f16 or bf16 or int8"),
    ):
        with pytest.raises(MavcgError, match=message) as raised:
            read_application_file(write_application(tmp_path, tracker=keys))
        assert "app.toml: line " in str(raised.value)


@pytest.mark.long
def test_a_library_computes_with_weights_in_8_bits(tmp_path: Path, mavcg: Mavcg) -> None:
    """Beside NumPy in f64 with weights rounded to 8 bits; the same bits with any number of threads."""
    onnx = pytest.importorskip("onnx")
    file = write_application(tmp_path, detector='weights = "int8"\nmax_error = 0.5')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *QUICK)
    assert ended.status == 0, ended.stderr
    model = onnx.load(tmp_path / "detector.onnx")
    weights = [
        rounded_to_eight_bits(onnx.numpy_helper.to_array(t), 0).astype(np.float64) for t in model.graph.initializer
    ]
    assert_detector_computes_with(weights, tmp_path / "libapp.so")


@pytest.mark.long
def test_three_trained_networks_within_twelve_megabytes(tmp_path: Path) -> None:
    """A face detector, face landmarks and MobileNet v2: only with weights in half precision, for this machine."""
    from bench.models import model_path

    tables = []
    for name in ("blazeface", "face_landmark", "mobilenet_v2"):
        try:
            tables.append(f'[[network]]\nname = "{name}"\nfile = "{model_path(name)}"\n')
        except MavcgError as error:
            pytest.skip(str(error))
    file, excess = tmp_path / "app.toml", []
    for weights in ("", 'weights = "f16"\n'):
        file.write_text('memory = "12 MB"\n' + "".join(table + weights for table in tables))
        request, _ = make_model_request(file, str(tmp_path / "libapp.so"), ModelOptions(board="exynos9820"))
        excess.append(plan_library(read_application_file(file), request).excess_bytes)
    assert excess[0] > 3_000_000 and excess[1] <= 0


def convolution(x: Any, w: Any, stride: int) -> Any:
    """A 3x3 convolution with a border of one, in f64; x: N, C, H, W."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w)
