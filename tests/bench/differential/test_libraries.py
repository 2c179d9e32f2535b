"""Random graphs: they follow from their number, cover the operators, and their memory is guarded."""

import multiprocessing
import signal
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from bench.differential.__main__ import summary  # noqa: E402
from bench.differential.arm import emulator  # noqa: E402
from bench.differential.graphs import kinds_of, random_part  # noqa: E402
from bench.differential.libraries import ARM_EVERY, batch_of, same_bits  # noqa: E402
from bench.differential.memory import Guarded  # noqa: E402
from bench.differential.part import MICROSOFT, OPSETS  # noqa: E402


def test_a_graph_follows_from_its_number() -> None:
    for number in (0, 40, 87):
        first, again = (random_part(3, number, 17) for _ in range(2))
        assert first.model().SerializeToString() == again.model().SerializeToString()
        assert all(
            np.array_equal(a, b, a.dtype.kind == "f")
            for a, b in zip(first.inputs.values(), again.inputs.values(), strict=True)
        )
    assert random_part(3, 40, 17).model() != random_part(4, 40, 17).model()


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.sample(6)
def test_graphs_are_sound_and_cover_the_operators(opset: int) -> None:
    parts = [random_part(0, number, opset) for number in range(6 * len(kinds_of(opset)))]

    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 8, {"": opset, MICROSOFT: 1}
    for node in (node for part in parts for node in part.nodes if not node.domain):
        onnx.checker.check_node(node, context)
    assert len({operator for part in parts for operator in part.operators}) >= (80 if opset >= 11 else 60)
    assert {part.dtype for part in parts} == {np.float32, np.float16, np.float64}


def _touch(at_end: bool, beyond: bool) -> None:
    import ctypes
    import faulthandler

    faulthandler.disable()  # the crash is expected: no traceback of it in the test's output
    memory = Guarded((3, 5), np.float32, at_end).array
    memory[...] = 7
    address = memory.ctypes.data + (memory.nbytes if at_end else -1) if beyond else memory.ctypes.data
    ctypes.memset(address, 1, 1)


@pytest.mark.parametrize("at_end", [True, False])
def test_a_byte_beyond_is_a_crash(at_end: bool) -> None:
    for beyond in (False, True):
        child = multiprocessing.get_context("fork").Process(target=_touch, args=(at_end, beyond))
        child.start()
        child.join()
        assert child.exitcode == (-signal.SIGSEGV if beyond else 0)


def test_the_sign_of_zero_is_a_bit_and_that_of_nan_is_not() -> None:
    x = np.array([1.0, np.nan, 0.0], np.float32)
    assert same_bits([x], [np.copysign(x, [1, -1, 1]).astype(np.float32)])
    assert not same_bits([x], [np.copysign(x, [1, 1, -1]).astype(np.float32)])
    assert not same_bits([x], [np.array([1.0, 0.0, 0.0], np.float32)])


# 4: with versions for the cores that this machine can run; 7: TFLite; 10: by parts of rows.
@pytest.mark.long
@pytest.mark.parametrize("number", [3, 7, *(pytest.param(n, marks=pytest.mark.long) for n in (4, 10))])
@pytest.mark.sample(1)
def test_a_batch_agrees_with_the_other_runtime(tmp_path: Path, number: int) -> None:
    numbers = range(number * 96, number * 96 + (96 if number == 10 else 12))

    results = batch_of(number, 20_000, numbers, tmp_path)

    assert sorted(result.number for result in results) == list(numbers)
    assert [result for result in results if result.status in ("different", "crash")] == []
    assert sum(result.status == "same" for result in results) >= len(numbers) * 0.7
    assert summary(results)["formats"] == {"tflite" if number == 7 else "onnx": len(numbers)}
    assert {result.versions[0] for result in results} >= {"by rows, generic" if number == 10 else "generic"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(emulator() is None, reason="no qemu-aarch64 or no libc6-arm64-cross")
def test_a_batch_for_aarch64(tmp_path: Path) -> None:
    results = batch_of(ARM_EVERY + 1, 21, range(1632, 1640), tmp_path, with_arm=True)

    assert [result for result in results if result.status not in ("same", "explained")] == []
    assert all(result.versions[0] == "AArch64 generic" and len(result.versions) == 3 for result in results)
