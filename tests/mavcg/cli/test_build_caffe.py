"""`mavcg build net.prototxt` as its page says it: the weights beside it or named, built, inspected and run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load
from mavcg.graph.reference import run
from mavcg.importers.load import import_model

pytest.importorskip("google.protobuf")
NET = """\
name: "small"
input: "data" input_shape { dim: 10 dim: 3 dim: 11 dim: 11 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 3 stride: 2 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "fc2" type: "InnerProduct" bottom: "pool1" top: "fc2" inner_product_param { num_output: 4 } }
layer { name: "prob" type: "Softmax" bottom: "fc2" top: "prob" }
"""


@pytest.fixture
def network(here: Path) -> Path:
    from mavcg.importers.caffe_weights import net_parameter

    numbers, net = np.random.default_rng(0), net_parameter()()
    for name, shapes in {"conv1": ((8, 3, 3, 3), (8,)), "fc2": ((4, 72), (4,))}.items():
        layer = net.layer.add(name=name.encode())
        for shape in shapes:
            layer.blobs.add(data=[numbers.standard_normal(shape).astype("<f4").tobytes()]).shape.dim.extend(shape)
    (here / "net.prototxt").write_text(NET)
    (here / "net.caffemodel").write_bytes(net.SerializeToString())
    return here / "net.prototxt"


def test_build_inspect_run(mavcg: Callable[..., Any], network: Path, here: Path) -> None:
    ended = mavcg("build", "net.prototxt", "--shape", "data=1x3x11x11", "--cores", "generic", "-o", "libnet.so")
    assert ended.status == 0, ended.stderr

    x = np.random.default_rng(1).standard_normal((1, 3, 11, 11)).astype(np.float32)
    (expected,) = run(import_model(network, {"data": x.shape}), x)
    library = load(here / "libnet.so")
    np.testing.assert_allclose(library.run(x)[0], expected, rtol=1e-5, atol=1e-6)
    document = json.loads(mavcg("inspect", "libnet.so", "--json").stdout)
    assert "conv1" in json.dumps(document)
    assert mavcg("run", "libnet.so", "--seed", "0", "-o", "y.npz").status == 0
    assert np.load(here / "y.npz")["prob"].shape == (1, 4)


def test_weights_are_named_or_asked_for(mavcg: Callable[..., Any], network: Path, here: Path) -> None:
    network.with_suffix(".caffemodel").rename(here / "other.caffemodel")
    refused = mavcg("build", "net.prototxt", "--cores", "generic")
    assert refused.status == 2 and "net.prototxt:3: layer 'conv1' (Convolution): needs weights" in refused.stderr
    assert "--weights FILE" in refused.stderr and not (here / "libnet.so").exists()

    named = mavcg("plan", "net.prototxt", "--json")
    assert named.status == 2 and "net.caffemodel is not there" in named.stderr
    assert mavcg("build", "x.onnx", "--weights", "other.caffemodel", "--cores", "generic").status == 2


@pytest.mark.long
def test_a_project_names_the_weights(mavcg: Callable[..., Any], network: Path, here: Path) -> None:
    network.with_suffix(".caffemodel").rename(here / "other.caffemodel")
    (here / "mavcg.toml").write_text(
        '[[model]]\nfile = "net.prototxt"\nweights = "other.caffemodel"\ncores = ["generic"]\n'
    )

    assert mavcg("build").status == 0 and (here / "libnet.so").is_file()


def test_an_accelerator_s_program(mavcg: Callable[..., Any], network: Path, here: Path) -> None:
    ended = mavcg(
        "accel",
        "build",
        "net.prototxt",
        "--shape",
        "data=1x3x11x11",
        "--target",
        "zu2",
        "--search",
        "none",
        "-o",
        "n.elf",
        "--json",
    )

    assert ended.status == 0, ended.stderr
    assert json.loads(ended.stdout)["nodes"] >= 1
