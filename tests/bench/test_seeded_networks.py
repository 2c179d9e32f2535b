"""Seeded networks: parameters as published, the same bytes each time, and results of small ones as onnxruntime's."""

import math
from pathlib import Path

import numpy as np
import pytest

from bench.host_library import build_for_host
from bench.model_accuracy import outputs_of, relative_error
from bench.seeded_networks import NETWORKS, encoders
from bench.seeded_networks.nasnet import nasnet
from bench.seeded_networks.writer import OnnxWriter
from bench.worker import seeded_inputs

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime (mavcg[dev]) is not installed")


def parameters(name: str) -> float:
    """Millions of weights."""
    return float(sum(math.prod(t.dims) for t in NETWORKS[name]().graph.initializer) / 1e6)


# Without the statistics of batch norms, which are folded into convolutions here: slightly below the published counts.
@pytest.mark.parametrize(("name", "published"), [("nasnet_mobile", 5.3)])
def test_parameters_of_small_networks(name: str, published: float) -> None:
    assert parameters(name) == pytest.approx(published, rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("mobilenet_v1", 4.2),
        ("mnasnet_1.0", 4.4),
        ("inception_v3", 23.8),
        ("inception_v4", 42.7),
        ("inception_resnet_v2", 55.8),
        ("resnet_v2_101", 44.7),
        ("nasnet_large", 88.9),
        ("albert", 11.7),
        ("mobilebert", 25.3),
    ],
)
def test_parameters_of_large_networks(name: str, published: float) -> None:
    assert parameters(name) == pytest.approx(published, rel=0.06)


def test_two_writers_draw_the_same_weights_and_share_named_ones() -> None:
    nets = [OnnxWriter("n"), OnnxWriter("n")]
    for net in nets:
        net.conv(net.image("input", 3, 9), 8, 3, 2)
        net.weight("shared", np.zeros(2, np.float32))
        net.weight("shared", np.ones(2, np.float32))
    first, second = (net.weights for net in nets)
    assert all((first[name] == second[name]).all() for name in first) and not first["shared"].any()


@pytest.mark.parametrize(
    ("padding", "kernel", "stride"), [("SAME", 3, 2), ("VALID", 3, 2), ("EVEN", 3, 2), ("SAME", 1, 2)]
)
def test_shapes_followed_are_onnxruntimes(padding: str, kernel: int, stride: int) -> None:
    net = OnnxWriter("n")
    x = net.pool(net.conv(net.image("input", 3, 10), 4, kernel, stride, padding=padding), "MaxPool", 3, 2)
    model = net.model([("input", np.float32, (1, 3, 10, 10))], [(x, (1, *net.shape[x]))])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"input": np.zeros((1, 3, 10, 10), np.float32)})
    assert result.shape == (1, *net.shape[x])


@pytest.mark.long
@pytest.mark.parametrize("name", ["albert", "mobilebert", "nasnet"])
def test_small_forms_are_onnxruntimes_results(name: str, tmp_path: Path) -> None:
    from bench.runners import onnxruntime_runner

    made = nasnet("tiny", 64, 3, 12, 8) if name == "nasnet" else getattr(encoders, name)(layers=2)
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    runner = onnxruntime_runner(path, 1)
    arrays = seeded_inputs(runner)
    outputs = outputs_of(build_for_host(path, tmp_path / "libnet.so"), arrays)
    assert relative_error(outputs, runner.run(arrays)) < 1e-5
