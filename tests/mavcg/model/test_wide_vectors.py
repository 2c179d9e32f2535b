"""A library with versions for cores with AVX-512 and VNNI, run by this machine where it has these: the same bits.

Hosts without them run the same kernels emulated (tests/kernels/int8/test_other_cores.py); here it is silicon.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

# By the features of LLVM's names that a host must have to run the version.
CORES = {
    "haswell": ("avx2", "fma"),
    "skylake-avx512": ("avx512f", "avx512vl", "avx512bw", "avx512dq"),
    "icelake-server": ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512vnni", "avx512vbmi"),
}
RUN = """
import sys, numpy as np, mavcg
for threads in (1, 3):
    with mavcg.load(sys.argv[1], threads=threads) as model:
        np.savez(f"{sys.argv[3]}-{threads}.npz", *model.run(np.load(sys.argv[2])))
"""


def network(path: Path) -> None:
    """Convolutions of f32 (3x3, depthwise, 1x1) and of 8 bits, with widths that fill no vector, and a product."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(7)
    arrays = {
        "w1": rng.standard_normal((27, 3, 3, 3)).astype(np.float32),
        "b1": rng.standard_normal(27).astype(np.float32),
        "w2": rng.standard_normal((27, 1, 3, 3)).astype(np.float32),
        "w3": rng.standard_normal((67, 27, 1, 1)).astype(np.float32),
        "w4": rng.integers(-127, 128, (35, 67, 3, 3)).astype(np.int8),
        "w5": rng.standard_normal((35, 21)).astype(np.float32),
        "scale": np.float32(0.5),
        "fine": np.float32(0.01),
        "zero": np.int8(-3),
        "none": np.int8(0),
    }
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], strides=[2, 2], pads=[1, 1, 1, 1]),
        make("Relu", ["c1"], ["r1"]),
        make("Conv", ["r1", "w2"], ["c2"], group=27, pads=[1, 1, 1, 1]),
        make("Conv", ["c2", "w3"], ["c3"]),
        make("QuantizeLinear", ["c3", "scale", "zero"], ["q3"]),
        make("QLinearConv", ["q3", "scale", "zero", "w4", "fine", "none", "scale", "zero"], ["q4"], pads=[1, 1, 1, 1]),
        make("DequantizeLinear", ["q4", "scale", "zero"], ["d4"]),
        make("GlobalAveragePool", ["d4"], ["g"]),
        make("Flatten", ["g"], ["f"]),
        make("MatMul", ["f", "w5"], ["y"]),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "wide",
        [value("x", 1, [1, 3, 37, 41])],
        [value("y", 1, [1, 21]), value("q4", 3, None)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.long
def test_every_version_that_this_machine_runs_gives_the_same_bits(
    mavcg: Any, run_program: Callable[..., Any], tmp_path: Path
) -> None:
    features = llvm.get_host_cpu_features()
    runnable = [core for core, needed in CORES.items() if all(features.get(name) for name in needed)]
    if "skylake-avx512" not in runnable:
        pytest.skip("this machine has no AVX-512: its kernels run emulated, in tests/kernels/int8/test_other_cores.py")
    network(tmp_path / "wide.onnx")
    ended = mavcg("build", tmp_path / "wide.onnx", "--cores", ",".join(CORES), "-o", tmp_path / "libwide.so")
    assert ended.status == 0, ended.stderr
    x = np.random.default_rng(11).standard_normal((1, 3, 37, 41)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)

    answers: dict[str, list[NDArray[Any]]] = {}
    for core in ("generic", *runnable):
        command = [sys.executable, "-c", RUN, tmp_path / "libwide.so", tmp_path / "x.npy", tmp_path / core]
        ran = run_program(*command, MAVCG_CPU_MAP=f"0-255={core}", MAVCG_TRACE="1")
        assert ran.status == 0, ran.stderr
        assert core in ran.stderr  # the trace names the version that ran
        for threads in (1, 3):
            answers[f"{core}, {threads} threads"] = list(np.load(tmp_path / f"{core}-{threads}.npz").values())
    onnxruntime = pytest.importorskip("onnxruntime")
    expected = onnxruntime.InferenceSession(str(tmp_path / "wide.onnx")).run(None, {"x": x})
    first = answers["generic, 1 threads"]
    np.testing.assert_allclose(first[0], expected[0], rtol=1e-3, atol=0.05)
    assert np.abs(first[1].astype(int) - expected[1]).max() <= 1  # a quantum of rounding
    for name, outputs in answers.items():
        assert [o.tobytes() for o in outputs] == [o.tobytes() for o in first], name
