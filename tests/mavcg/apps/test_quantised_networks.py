"""precision = "int8" of a network in app.toml: its samples convert it, and its error is that on the samples."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load_application
from tests.mavcg.apps.small_networks import NETWORKS, image, write_application

Mavcg = Callable[..., Any]
INT8 = 'precision = "int8"\nsamples = "samples"'


def write_samples(folder: Path, network: str, count: int = 4) -> list[Any]:
    """Write samples of a network's input, and return them."""
    (folder / "samples").mkdir(exist_ok=True)
    images = [image(network, seed) for seed in range(count)]
    for number, array in enumerate(images):
        np.save(folder / "samples" / f"{number}.npy", array)
    return images


@pytest.mark.long
def test_a_network_in_8_bits_has_the_error_of_its_document(tmp_path: Path, mavcg: Mavcg) -> None:
    """The plan has the bytes of the build; other networks keep their bits; the file stays as it was."""
    pytest.importorskip("onnxruntime.quantization")
    samples = write_samples(tmp_path, "detector")
    file = write_application(tmp_path)
    ended = mavcg("app", "build", file, "-o", tmp_path / "libwhole.so", "--board", "host", "--json")
    assert ended.status == 0, ended.stderr
    before = {network["name"]: network for network in json.loads(ended.stdout)["networks"]}
    write_application(tmp_path, detector=INT8)
    onnx = (tmp_path / "detector.onnx").read_bytes()
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", "--board", "host", "--json")
    assert ended.status == 0, ended.stderr
    built = json.loads(ended.stdout)
    after = {network["name"]: network for network in built["networks"]}
    ended = mavcg("app", "plan", file, "--board", "host", "--generations", "0", "--json")
    assert ended.status == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert plan["networks"] == built["networks"] and plan["arena_bytes"] == built["arena_bytes"]
    assert plan["file_weights_bytes"] < 4 * sum(n["weight_bytes"] for n in before.values())
    conversion = after["detector"]["conversion"]
    assert (conversion["precision"], conversion["layers"], conversion["layers_of_floats"]) == ("int8", 2, 2)
    assert conversion["samples"] == 4 and after["tracker"]["conversion"] is None
    assert after["detector"]["weight_bytes"] < 0.5 * before["detector"]["weight_bytes"]
    assert (tmp_path / "detector.onnx").read_bytes() == onnx

    with load_application(tmp_path / "libapp.so") as app, load_application(tmp_path / "libwhole.so") as whole:
        for name in NETWORKS:
            images = samples if name == "detector" else [image(name)]
            made, right = (np.concatenate([each[name].run(x)[0] for x in images]) for each in (app, whole))
            if name == "detector":
                error = float(np.sqrt(np.square(made - right).sum() / np.square(right).sum()))
                assert error == pytest.approx(conversion["measured_error"], rel=0.05) and 0 < error < 0.1
            else:
                assert made.tobytes() == right.tobytes()
    assert "in int8; error" in " ".join(mavcg("inspect", tmp_path / "libapp.so").stdout.split())


def test_samples_that_are_not_there_are_named_with_their_network(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnxruntime.quantization")
    file = write_application(tmp_path, detector=INT8)
    build = ("app", "build", file, "-o", tmp_path / "libapp.so", "--board", "exynos9820")
    for sample, words in (
        (None, "is not a folder; name one with .npy"),
        ("a.txt", "has no .npy or .npz file"),
        ("a.npy", "sample 0: x is float32"),
    ):
        if sample is not None:
            (tmp_path / "samples").mkdir(exist_ok=True)
            with (tmp_path / "samples" / sample).open("wb") as written:
                np.save(written, np.zeros((1, 3, 8, 8), np.float32))
        ended = mavcg(*build)
        text = " ".join(ended.stderr.split())
        assert ended.status == 2 and "line 2: network 'detector': samples" in text and words in text
