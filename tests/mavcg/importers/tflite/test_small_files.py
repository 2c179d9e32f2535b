"""Files of less than 200 kB that ask for much: refused, or left to each run, within a few seconds and gigabytes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import fresh_name, fresh_names
from mavcg.importers.tflite_file import import_tflite
from mavcg.importers.tflite_support import tflite_support
from tests.mavcg.importers.bounds import check_bounds
from tests.mavcg.importers.tflite import shared_tables as shared
from tests.mavcg.importers.tflite.conftest import Writer

LARGE = (1 << 31) - 8


def symmetric_pad(length: int, pad: int) -> bytes:
    """A pad whose table of indices has more bytes than its result."""
    w = Writer()
    x, pads = w.input((length,), "i8"), w.constant([[pad, pad]])
    return w.bytes(w.op("MIRROR_PAD", [x, pads], "i8", "MirrorPadOptions", mode=1))


def scattered(count: int) -> bytes:
    """Sums of tensors of 2 GiB that hold one update."""
    w = Writer()
    index, total = w.input((1, 1), "i32"), w.input((1,))
    update, shape, axis = total, w.constant([(1 << 29) - 8]), w.constant([0])
    for _ in range(count):
        made = w.op("SCATTER_ND", [index, update, shape], "f32")
        total = w.op("ADD", [total, w.op("SUM", [made, axis], "f32", "ReducerOptions")], "f32", "AddOptions")
    return w.bytes(total)


def empty() -> bytes:
    """A tensor without elements whose other lengths NumPy cannot multiply."""
    w = Writer()
    x, none = w.input((3,)), w.tensor((0, 2**31 - 1, 2**31 - 1, 2**31 - 1))
    return w.bytes(w.op("ADD", [x, none], "f32", "AddOptions"))


def on_filled(name: str, shape: list[int], options: str, axes: list[int], **fields: float) -> bytes:
    """x plus the sum of an operator's result on a constant that the file makes from its shape."""
    w = Writer()
    x, half = w.input((1,)), w.constant(0.5)
    filled = w.op("FILL", [w.constant(shape), half], "f32", "FillOptions")
    made = w.op(name, [filled], "f32", options, **fields)
    return w.bytes(
        w.op("ADD", [x, w.op("SUM", [made, w.constant(axes)], "f32", "ReducerOptions")], "f32", "AddOptions")
    )


LRN = {"radius": 2499, "alpha": 0.1, "beta": 0.7, "bias": 1.0}
WIDE = {"strideH": 1, "strideW": 1, "padding": 0, "filterHeight": 2000, "filterWidth": 2000}
SHARED = "names and lists that several tables share make more than 4 times the file; the file is damaged"
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "names": (shared.names, SHARED),
    "scales": (shared.scales, SHARED),
    "unaligned constants": (shared.unaligned_constants, SHARED),
    "truths": (shared.truths, SHARED),
    "layouts": (shared.layouts, SHARED),
    "operands": (shared.operands, SHARED),
    "options": (shared.options, SHARED),
    "sums": (shared.sums, SHARED),
    "sparse": (
        lambda: shared.sparse(20, shared.F32, (1 << 29) - 8),
        "at most 536870912 of a tensor that is stored sparse",
    ),
    "many sparse": (
        lambda: shared.sparse(20, shared.F32, 1 << 26),
        "from its constants takes more than 2147483648 bytes",
    ),
    "sparse in 8 bits": (
        lambda: shared.sparse(1, shared.I8, 1 << 28),
        "takes 1073741824 bytes as f32; at most 536870912",
    ),
    "mirror": (lambda: symmetric_pad(LARGE, 1 << 29), "at most 2147483648 bytes"),
    "indices": (lambda: symmetric_pad(LARGE - 8, 4), "from its constants takes more than 2147483648 bytes"),
    "scattered": (lambda: scattered(3), "from its constants takes more than 2147483648 bytes"),
    "empty": (empty, "too large: [0, 2147483647, 2147483647, 2147483647]"),
}
BUILT: dict[str, Callable[[], bytes]] = {
    "inputs": shared.inputs_of_one_name,
    "outputs": shared.outputs_of_one_name,
    "LRN": lambda: on_filled(
        "LOCAL_RESPONSE_NORMALIZATION", [1, 28, 28, 4999], "LocalResponseNormalizationOptions", [0, 1, 2, 3], **LRN
    ),
    "pool": lambda: on_filled("AVERAGE_POOL_2D", [1, 2000, 2000, 1], "Pool2DOptions", [0, 1, 2, 3], **WIDE),
    "EXP": lambda: on_filled("EXP", [1 << 25], "ExpOptions", [0]),
}

HEAVY = ("inputs", "outputs", "EXP")  # seconds, most of them in the graph passes


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", REFUSED)
def test_a_small_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    make, reason = REFUSED[name]
    path = tmp_path / "small.tflite"
    path.write_bytes(make())
    assert path.stat().st_size < 200_000
    with pytest.raises(MavcgError) as refused:
        import_tflite(path)
    assert reason in str(refused.value) and str(refused.value).startswith(f"{path}: ")
    check_bounds(path)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in HEAVY)) for n in BUILT])
def test_a_small_file_is_imported_soon(name: str, tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(BUILT[name]())
    assert path.stat().st_size < 200_000
    check_bounds(path)


def test_what_a_partial_build_cannot_import_stays_with_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(scattered(3))
    reasons = [entry.why for entry in tflite_support(path).operators if entry.operator.op == "SCATTER_ND"]
    assert reasons[0] == "" and "from its constants takes more than" in reasons[1]


def test_a_constant_in_8_bits_is_made_real_once_for_its_readers(tmp_path: Path) -> None:
    """An unrolled network reads the same weights at each step."""
    w = Writer()
    x, weights = w.input((1,)), w.constant(np.ones(64, np.int8), "i8", 0.5)
    sums = [w.op("ADD", [weights, x], "f32", "AddOptions") for _ in range(5)]
    path = tmp_path / "again.tflite"
    path.write_bytes(w.bytes(w.op("ADD_N", sums, "f32", "AddNOptions")))
    graph = import_tflite(path)
    assert [array.tolist() for array in graph.constants.values()] == [[0.5] * 64]


@pytest.mark.parametrize("stems", [["a", "a", "a.1", "a"], ["a.1", "a", "a", "a"], ["b", "a", "b", "a", "b.1"], []])
def test_fresh_names_are_those_of_one_after_the_other(stems: list[str]) -> None:
    for used in ([], ["a"], ["a", "a.2"], ["b.1"]):
        names = list(used)
        for stem in stems:
            names.append(fresh_name(names, stem))
        assert fresh_names(used, stems) == names[len(used) :]
