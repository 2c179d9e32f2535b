"""The verdict names who is alone: mavcg, a runtime or NumPy, in shapes and in elements."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.chains.chain import ONNX, Chain, Node  # noqa: E402
from bench.chains.verdict import Opinions, Shapes, opinions_of, shape_verdict, verdict  # noqa: E402
from bench.differential.part import Array  # noqa: E402

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def chain_of_three() -> Chain:
    """Exp, a product of two rows and columns, and its rows in reverse."""
    ends = {"s": [2], "e": [-9], "a": [0], "t": [-1]}
    nodes = (
        Node("Exp", ("g_x",), ("g_exp",)),
        Node("MatMul", ("g_exp", "g_w"), ("g_y",)),
        Node("Slice", ("g_y", *(f"g_{name}" for name in ends)), ("g_z",)),
    )
    constants = {f"g_{name}": np.array(v, np.int64) for name, v in ends.items()}
    w = np.linspace(0.1, 1, 8, dtype=np.float32).reshape(4, 2)
    return Chain(ONNX, "g_", 17, nodes, {"g_w": w, **constants}, {"g_x": X}, ("g_z", "g_exp"))


def shapes_of(opinions: Opinions) -> dict[str, tuple[tuple[int, ...], str]]:
    assert opinions.runtime is not None
    return {name: (x.shape, x.dtype.name) for name, x in opinions.runtime.items()}


def outputs(chain: Chain, values: Mapping[str, Array]) -> list[Array]:
    return [np.array(values[name]) for name in chain.outputs]


def test_equal_results_are_the_same() -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)

    assert opinions.runtime is not None
    assert shape_verdict(chain, shapes_of(opinions), opinions) is None
    found = verdict(chain, outputs(chain, opinions.runtime), opinions)
    assert (found.status, found.elements, found.undetermined) == ("same", 18, 0)


def test_a_wrong_element_is_a_fault_of_mavcg_alone() -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    ours = outputs(chain, opinions.runtime)
    ours[0][1, 1] *= np.float32(1 + 1e-5)

    found = verdict(chain, ours, opinions)

    assert (found.status, found.reason) == ("different", "Slice: mavcg alone in 1 of 6 elements")


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "reason"),
    [
        ("g_y", (2, 3), "float32", "shape of MatMul: mavcg alone: (2, 3), (3, 2), (3, 2)"),
        ("g_z", (0, 2), "float32", "shape of Slice: mavcg alone: (0, 2), (3, 2), (3, 2)"),
        ("g_exp", (3, 4), "float64", "type of Exp: float64 where float32 is expected"),
    ],
)
def test_a_wrong_shape_of_any_tensor_is_a_fault(name: str, shape: tuple[int, ...], dtype: str, reason: str) -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)
    shapes: Shapes = {**shapes_of(opinions), name: (shape, dtype)}

    found = shape_verdict(chain, shapes, opinions)

    assert found is not None
    assert (found.status, found.reason) == ("different", reason)


def test_a_runtime_that_is_alone_is_named_with_its_operator() -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    ours = outputs(chain, opinions.runtime)
    wrong = {name: np.array(x) for name, x in opinions.runtime.items()}
    wrong["g_y"] = wrong["g_y"] * np.float32(1.5)  # from there on, as a fault of its product would show
    wrong["g_z"] = wrong["g_y"][::-1]

    found = verdict(chain, ours, replace(opinions, runtime=wrong))

    assert (found.status, found.reason) == ("explained", "onnxruntime alone: MatMul")


def test_numpy_that_is_alone_is_named() -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    assert opinions.numpy is not None
    wrong = {name: replace(b, value=b.value + 1) if name == "g_z" else b for name, b in opinions.numpy.items()}

    found = verdict(chain, outputs(chain, opinions.runtime), replace(opinions, numpy=wrong))

    # NumPy is asked again before a difference is called one; here its answer is the right one.
    assert found.status == "explained"
    assert found.reason == "NumPy alone: Slice"


def test_three_that_differ_are_a_fault() -> None:
    chain = chain_of_three()
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    ours = outputs(chain, opinions.runtime)
    ours[0] += 9
    wrong = {name: np.array(x) + (2 if name == "g_z" else 0) for name, x in opinions.runtime.items()}

    found = verdict(chain, ours, replace(opinions, runtime=wrong))

    assert (found.status, found.reason) == ("different", "Slice: no two agree in 6 of 6 elements")


def test_a_sine_of_a_large_argument_is_conditioned() -> None:
    nodes = (Node("Exp", ("g_x",), ("g_y",)), Node("Sin", ("g_y",), ("g_z",)))
    chain = Chain(ONNX, "g_", 17, nodes, {}, {"g_x": np.array([9.0, 1.0], np.float32)}, ("g_z",))
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    ours = outputs(chain, opinions.runtime)
    ours[0][0] += np.float32(1e-4)  # the argument is 8103, whose last bit is 4.9e-4

    assert verdict(chain, ours, opinions).reason == "conditioned: all within the bound"
    ours[0][1] += np.float32(1e-4)
    assert verdict(chain, ours, opinions).status == "different"
