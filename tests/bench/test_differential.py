"""Random graphs: they follow from their number, cover the operators, and their memory is guarded."""

import multiprocessing
import signal
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.differential import Guarded, batch_of, verdict  # noqa: E402
from bench.differential_graphs import KINDS, OPSETS, SINCE, random_part  # noqa: E402


def test_a_graph_follows_from_its_number() -> None:
    for number in (0, 40, 87):
        first, again = (random_part(3, number, 17) for _ in range(2))
        assert first.model().SerializeToString() == again.model().SerializeToString()
        assert all(
            np.array_equal(a, b, True) for a, b in zip(first.inputs.values(), again.inputs.values(), strict=True)
        )
    assert random_part(3, 40, 17).model() != random_part(4, 40, 17).model()


@pytest.mark.parametrize("opset", OPSETS)
def test_graphs_are_sound_and_of_all_operators(opset: int) -> None:
    kinds = [kind for kind in KINDS if SINCE.get(kind, 0) <= opset]
    parts = [random_part(0, number, opset) for number in range(len(kinds))]

    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 8, {"": opset}
    for node in (node for part in parts for node in part.nodes):
        onnx.checker.check_node(node, context)
    assert len({operator for part in parts for operator in part.operators}) >= 80


def _touch(at_end: bool, beyond: bool) -> None:
    import ctypes

    memory = Guarded((3, 5), np.float32, at_end).array
    memory[...] = 7
    place = memory.ctypes.data + (memory.nbytes if at_end else -1) if beyond else memory.ctypes.data
    ctypes.memset(place, 1, 1)


@pytest.mark.parametrize("at_end", [True, False])
def test_a_byte_beyond_is_a_crash(at_end: bool) -> None:
    for beyond in (False, True):
        child = multiprocessing.get_context("fork").Process(target=_touch, args=(at_end, beyond))
        child.start()
        child.join()
        assert child.exitcode == (-signal.SIGSEGV if beyond else 0)


def test_differences_have_their_class() -> None:
    part = random_part(0, 0, 17)
    part.hard, part.operators = False, ["Relu"]
    one, other = np.array([1.0, np.nan], np.float32), np.array([1.001, np.nan], np.float32)
    assert verdict(part, [one], [one + np.float32(1e-6)]) == ("same", "")
    assert verdict(part, [one], [other]) == ("different", "Relu")
    assert verdict(part, [one], [one[:1]])[0] == verdict(part, [one], [np.zeros(2, np.float32)])[0] == "different"
    part.operators = ["QuantizeLinear"]
    bytes_ = np.array([3, 4], np.uint8)
    assert verdict(part, [bytes_], [bytes_ + np.uint8(1)]) == ("explained", "8 bits: one step")
    assert verdict(part, [bytes_], [bytes_ + np.uint8(2)])[0] == "different"


@pytest.mark.parametrize("number", [3, pytest.param(7, marks=pytest.mark.long)])
def test_a_batch_agrees_with_onnxruntime(tmp_path: Path, number: int) -> None:
    numbers = range(number * 48, number * 48 + (10 if number == 3 else 48))

    results = batch_of(number, 20_000, numbers, tmp_path)

    assert sorted(result.number for result in results) == list(numbers)
    assert [result for result in results if result.status == "different"] == []
    assert sum(result.status == "same" for result in results) >= len(numbers) * 0.7
    assert list(tmp_path.iterdir()) == []
