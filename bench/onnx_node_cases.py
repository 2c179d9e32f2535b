"""The backend node tests of the installed onnx package: models, inputs and outputs."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from mavcg.graph import Array
from mavcg.importers.operators import operators

# Attention in half precision: ONNX's results come from wider intermediate values, and differ by the last bit of f16.
EXPECTED_TO_FAIL = {"test_attention_4d_causal_fp16", "test_attention_4d_causal_fp16_expanded"}
# The same of bfloat16, which ONNX rounds to after each operator, and mavcg at the end alone; the tests permit a quarter
# of a step of it.
EXPECTED_TO_FAIL |= {
    f"test_attention_{form}_bf16{end}"
    for form in ("3d_causal", "4d_attn_mask_causal", "4d_causal", "4d_causal_padded_kv", "4d_padded_kv")
    for end in ("", "_expanded")
}
# Made by ONNX's reference, which does not align corners where a scale makes no whole length; docs/operators.md.
EXPECTED_TO_FAIL |= {f"test_resize_downsample_scales_{mode}_align_corners" for mode in ("linear", "cubic")}
# ONNX's result is 1.9e-7, from roundings of f32, where the exact one is 0; more than the test permits.
EXPECTED_TO_FAIL |= {"test_dft_inverse", "test_dft_inverse_opset19"}


@dataclass(frozen=True)
class Case:
    """One test.

    operators: of the model. inputs, outputs: in order, not all of them arrays. rtol, atol: as ONNX gives them.
    """

    name: str
    model: Any
    operators: tuple[str, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float


@cache
def cases() -> tuple[Case, ...]:
    """Return all node tests of the installed onnx package, by name."""
    from onnx.backend.test.case.node import collect_testcases

    node_tests = []
    with warnings.catch_warnings(), np.errstate(all="ignore"), _without_idle_work():
        warnings.simplefilter("ignore")  # of ONNX's own generators, about overflows that they mean
        collected = collect_testcases(None)
    for case in collected:
        assert case.model is not None and case.data_sets is not None
        ((inputs, outputs),) = case.data_sets
        operators = tuple(sorted({n.op_type for n in case.model.graph.node}))
        node_tests.append(Case(case.name, case.model, operators, plain(inputs), plain(outputs), case.rtol, case.atol))
    return tuple(sorted(node_tests, key=lambda c: c.name))


@cache
def promised() -> tuple[str, ...]:
    """Return the operators with a handler and a node test of numbers: one passes, in the reference and in kernels."""
    tested = {operator for case in cases() if len(case.operators) == 1 for operator in case.operators}
    handled = {o.name for format, listed in operators().items() if format.startswith("onnx") for o in listed}
    return tuple(sorted((handled & tested) - {"LabelEncoder"}))  # all keys of its tests are strings


_MANY_WINDOWS = 1 << 15


@contextmanager
def _without_idle_work() -> Iterator[None]:
    """Collect tests without each test's source text, and with the largest pools computed at once, not by windows.

    Both together take four fifths of the time.
    """
    from onnx.backend.test.case import base
    from onnx.reference.ops import op_pool_common

    pool = op_pool_common.pool

    def pool_at_once(padded: Array, x_shape: Sequence[int], kernel: Sequence[int], *more: Any, **named: Any) -> Array:
        strides, out_shape, kind = (more + (None,) * 3)[:3]
        out_shape, kind = named.get("out_shape", out_shape), named.get("pooling_type", kind)
        if np.prod(out_shape) < _MANY_WINDOWS or set(strides or [1]) != {1} or np.isnan(padded).any():
            return np.asarray(pool(padded, x_shape, kernel, *more, **named))
        assert set(named.get("dilations") or [1]) == {1} and padded.shape == tuple(x_shape)
        windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axis=tuple(range(2, padded.ndim)))
        axes, p = tuple(range(padded.ndim, windows.ndim)), named.get("p", 1)
        if kind == "LPPOOL":
            return np.asarray((np.abs(windows) ** p).sum(axes) ** (1 / p), padded.dtype)
        return np.asarray(windows.max(axes) if kind == "MAX" else windows.mean(axes), padded.dtype)

    with patch.object(op_pool_common, "pool", pool_at_once), patch.object(base, "process_snippet", lambda *_: ("", "")):
        yield


def plain(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arrays of tensors that a test gives as messages; other values unchanged."""
    from onnx import TensorProto, numpy_helper

    return tuple(numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values)
