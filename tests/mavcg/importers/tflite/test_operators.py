"""Every operator over real numbers: the imported graph, computed by its definition, against LiteRT."""

from typing import Any

import pytest

from mavcg.importers.tflite_ops.table import HANDLERS
from tests.mavcg.importers.tflite.operator_cases import CASES


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_litert(case: str, writer: Any, check: Any) -> None:
    check.agrees(writer.bytes(*CASES[case](writer)))


@pytest.mark.parametrize("name", ["LOG", "SQRT", "RSQRT", "POW"])
def test_over_positive_numbers(name: str, writer: Any, check: Any) -> None:
    x = writer.input((2, 9))
    check.agrees(writer.bytes(writer.op(name, [x, x] if name == "POW" else [x])), low=0.1, high=3.0)


def test_ops_without_a_case_are_the_ones_tested_elsewhere(writer: Any) -> None:
    tested = {
        "LOG",
        "SQRT",
        "RSQRT",
        "POW",
        "QUANTIZE",
        "DEQUANTIZE",
        "DENSIFY",
        "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIQUE",
        "WHERE",
    }  # above, in test_quantised.py, test_sparse.py, test_recurrent.py, test_selecting.py
    for case in CASES.values():
        case(writer)
    numbers = {code.builtinCode for code in writer.model.operatorCodes}
    import tflite

    tested |= {tflite.utils.BUILTIN_OPCODE2NAME[n] for n in numbers}
    assert {op for op in HANDLERS if not op.startswith("CUSTOM ")} == tested  # those are in test_custom.py
