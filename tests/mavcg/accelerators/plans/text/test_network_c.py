"""Whole networks as C: equal to the interpreter of their plans and to the reference, with loops and over a BLAS."""

import ctypes
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.grid import search_pruned as search
from mavcg.accelerators.plans.schedule_cache import plan_layers
from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.accelerators.plans.text.interpret import count_plan
from mavcg.accelerators.plans.text.network_c import network_c
from mavcg.accelerators.plans.text.network_c_library import BLAS_RUNTIME
from mavcg.accelerators.plans.text.network_plan_text import NetworkText, network_text
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph
from mavcg.graph.networks.builder import NetworkBuilder, drawn_constants
from mavcg.graph.reference.evaluate import run
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.passes.graph.pipeline import optimise
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.accelerators.plans.text.interpreted_network import run_network

# What CBLAS says of these two, in plain loops: an implementation that is none of ours.
CBLAS = """\
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
    if (order != 101 || ta != 111 || tb != 111) __builtin_trap();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++) sum += (double)a[i * lda + l] * b[l * ldb + j];
            c[i * ldc + j] = (float)(alpha * sum + (beta ? beta * c[i * ldc + j] : 0));
        }
}
void cblas_sgemv(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                 float beta, float *y, int incy) {
    if (order != 101 || ta != 111) __builtin_trap();
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int l = 0; l < n; l++) sum += (double)a[i * lda + l] * x[l * incx];
        y[i * incy] = (float)(alpha * sum + (beta ? beta * y[i * incy] : 0));
    }
}
"""


def small_network() -> Graph:
    """Convolutions with stride, groups and pads, a pool, residual, concat, fold of pixels, LRN, products, softmax."""
    net = NetworkBuilder("small net", 14, 14)
    x = net.conv(net.image, "first", 8, 3, stride=2, pad=1, act="leaky")
    y = net.conv(x, "grouped", 8, 3, pad=1, groups=2)
    x = net.add(net.conv(y, "second", 8, 1, act=""), x, "sum", act="relu")
    x = net.concat(net.max_pool(x, 3, 2, (1, 1, 1, 1)), net.conv(x, "wide", 6, 3, stride=2, pad=1))
    x = net.lrn(net.space_to_depth(x, 2), 5, 5e-4, 0.75, 2.0)
    x = net.dense(net.flat(x), "hidden", 20)
    return optimise(net.finish(net.softmax(net.dense(x, "classes", 10, act=""))))


@pytest.fixture(scope="module")
def planned() -> tuple[NetworkText, dict[str, Array], Array]:
    """The network with plans for memories of 1 KiB, so that layers have tiles; its weights and an image."""
    graph = small_network()
    memory = MemoryLevel("on-chip", 1.0, 1024, 1024, 1024)
    accelerator = Accelerator("small", 1.0, (memory,), (4, 4), (("OC",), ("IC",)))
    plans = [emit_plan(p.layer, p.tiling, accelerator) for p in plan_layers(layers_of(graph), accelerator, search)]
    text = network_text(graph, plans)
    constants = drawn_constants(graph, graph.inputs[1:])
    return text, constants, np.random.default_rng(3).standard_normal((1, 14, 14, 3), np.float32)


def compiled(folder: Path, source: str, *flags: str, more: str = "") -> ctypes.CDLL:
    """A library, as strict C11."""
    (folder / "network.c").write_text(source + more)
    words = ["-target", host_target().zig_name, "-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-O1"]
    options = [*words, "-shared", "-fPIC", *PLAIN_CODE_FLAGS, *flags, "network.c", "-lm", "-o", "network.so"]
    run_zig("cc", options, "compiling a network", folder)
    return ctypes.CDLL(str(folder / "network.so"))


def called(library: ctypes.CDLL, name: str, weights: bytes, image: Array, count: int) -> Array:
    """One run."""
    given, result = np.frombuffer(weights, "<f4"), np.full(count, np.nan, np.float32)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (given, np.ascontiguousarray(image), result))
    assert getattr(library, name)(*pointers) == 0
    return result


def test_c_interpreter_and_reference_agree(
    tmp_path: Path, planned: tuple[NetworkText, dict[str, Array], Array]
) -> None:
    text, constants, image = planned
    interpreted, moved = run_network(text, constants, image)
    (expected,) = run(text.graph, image, *(constants[name] for name in text.graph.inputs[1:]), wide=True)
    np.testing.assert_allclose(interpreted, expected, rtol=2e-5)
    assert moved.traffic.total_bytes == sum(count_plan(plan).traffic.total_bytes for plan in text.plans.values())
    source, weights = network_c(text, "small net", constants)
    made = called(compiled(tmp_path, source), "small_net", weights, image, expected.size)
    np.testing.assert_allclose(made, interpreted.ravel(), rtol=2e-5)


def test_the_same_over_a_blas(tmp_path: Path, planned: tuple[NetworkText, dict[str, Array], Array]) -> None:
    text, constants, image = planned
    (tmp_path / "plan_blas.h").write_text(BLAS_RUNTIME)
    source, weights = network_c(text, "net", constants)
    library = compiled(tmp_path, source, '-DPLAN_RUNTIME="plan_blas.h"', "-Wno-unused-function", more=CBLAS)
    interpreted, _ = run_network(text, constants, image)
    np.testing.assert_allclose(called(library, "net", weights, image, interpreted.size), interpreted.ravel(), rtol=2e-5)


def test_what_a_network_as_c_is_refused_for(planned: tuple[NetworkText, dict[str, Array], Array]) -> None:
    text, constants, _ = planned
    with pytest.raises(MavcgError, match=re.escape("3 plans, 6 layers and 6 products")):
        network_text(text.graph, list(text.plans.values())[:3])
    nodes = tuple(
        node if node.op != "softmax" else replace(node, op="erf", attrs=(), origin="the end")
        for node in text.graph.nodes
    )
    other = network_text(replace(text.graph, nodes=nodes), list(text.plans.values()))
    with pytest.raises(MavcgError, match="'the end' .*has no erf at all"):
        network_c(other, "net", constants)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("net", "net"),
        ("2 nets", "model_2_nets"),
        ("int", "model_int"),
        ("store", "model_store"),
        ("main", "model_main"),
        ("math", "model_math"),
    ],
)
def test_the_function_has_the_files_name(
    tmp_path: Path, planned: tuple[NetworkText, dict[str, Array], Array], stem: str, name: str
) -> None:
    text, constants, _ = planned
    source, _ = network_c(text, stem, constants)
    assert getattr(compiled(tmp_path, source), name)


def test_a_model_with_channels_first_has_them_first_in_c(tmp_path: Path, mavcg: Any) -> None:
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    numbers, helper = np.random.default_rng(1), onnx.helper
    w = onnx.numpy_helper.from_array(numbers.standard_normal((5, 3, 3, 3)).astype(np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1] * 4)
    tensors = [helper.make_tensor_value_info(*value) for value in (("x", 1, [1, 3, 8, 12]), ("y", 1, [1, 5, 4, 6]))]
    graph = helper.make_graph([node], "main_graph", tensors[:1], tensors[1:], [w])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    x = numbers.standard_normal((1, 3, 8, 12)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})

    assert mavcg("plan", path, "--accelerator", "setup-a", "--emit-c", tmp_path / "small.c").status == 0

    source, weights = (tmp_path / "small.c").read_text(), (tmp_path / "small.weights.bin").read_bytes()
    assert "/* input: float [1, 3, 8, 12], output: float [1, 5, 4, 6], row-major. */" in source
    made = called(compiled(tmp_path, source), "small", weights, x, expected.size)
    np.testing.assert_allclose(made.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
