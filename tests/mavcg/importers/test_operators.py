"""What the handlers declare to be known at build, against imports in which inputs are computed in a run."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.onnx_file import import_onnx
from mavcg.importers.operators import BUILD, operators
from mavcg.importers.tflite_file import import_tflite
from tests.mavcg.importers.tflite.conftest import Writer
from tests.mavcg.importers.tflite.operator_cases import CASES

onnx = pytest.importorskip("onnx", reason="ONNX's node tests are the samples")
from bench.onnx_node_cases import cases  # noqa: E402

NEEDED = re.compile(r"its (?:input )?(.*?)(?: \(%.*\))? is known only")
DECLARED = {format: {o.name: o for o in listed} for format, listed in operators().items()}
# Without a node test that has it as an input; LSTM, whose handler reads it in the same function, has one. Those of
# operators on sequences have sequences as inputs.
ABSENT = {"DFT": {"dft_length"}, "SequenceErase": {"position"}, "SequenceInsert": {"position"}}


def needed_by_node_tests(folder: Path) -> tuple[dict[str, set[str]], dict[str, set[bool]]]:
    """The inputs that each operator asked for when all were computed in a run, and whether its results were known."""
    needed: dict[str, set[str]] = {}
    known: dict[str, set[bool]] = {}
    for case in cases():
        op = case.operators[0]
        if len(case.model.graph.node) != 1 or op not in DECLARED["onnx"]:
            continue
        model = type(case.model)()
        model.CopyFrom(case.model)
        values = dict(zip([i.name for i in model.graph.input], case.inputs, strict=False))
        path = folder / "m.onnx"
        for _ in range(len(values) + 1):
            path.write_bytes(model.SerializeToString())
            try:
                graph = import_onnx(path)
            except NeedsConstant as error:
                match = NEEDED.search(str(error))
                assert match is not None or "; supported: " in str(error), str(error)
                if match is not None:  # else other forms of the operator do without
                    needed.setdefault(op, set()).add(match[1])
                tensor = onnx.numpy_helper.from_array(np.asarray(values[error.tensor]), error.tensor)
                model.graph.initializer.append(tensor)
            except MavcgError:
                break  # a form that is out of scope: tests/mavcg/importers/test_onnx_nodes.py
            else:
                at_build = all(name in graph.constants for node in graph.nodes for name in node.inputs)
                known.setdefault(op, set()).add(at_build)
                break
    return needed, known


def test_onnx_inputs_that_must_be_known(tmp_path: Path) -> None:
    needed, known = needed_by_node_tests(tmp_path)
    different = {
        op: (needed.get(op, set()), operator.known)
        for op, operator in DECLARED["onnx"].items()
        if needed.get(op, set()) | ABSENT.get(op, set()) != set(operator.known)
    }

    assert different == {}
    assert len(known) > 120
    del known["If"]  # the branches of its tests have no inputs
    for op, results in known.items():
        assert (DECLARED["onnx"][op].kind == BUILD) == (results == {True}), op


def test_tflite_inputs_that_must_be_known(tmp_path: Path) -> None:
    """Each constant of each case becomes an input of the run, one at a time."""
    import tflite

    needed: dict[str, set[str]] = {}
    path = tmp_path / "m.tflite"
    for case in CASES.values():
        constants = [i for i, t in enumerate(built(case)[0].graph.tensors) if t.buffer]
        for index in constants:
            writer, outputs = built(case)
            writer.graph.tensors[index].buffer = 0
            writer.graph.inputs.append(index)
            path.write_bytes(writer.bytes(*outputs))
            op = tflite.utils.BUILTIN_OPCODE2NAME[writer.model.operatorCodes[0].builtinCode]
            try:
                import_tflite(path)
            except MavcgError as error:
                match = NEEDED.search(str(error))
                assert match is not None, str(error)
                needed.setdefault(op, set()).add(match[1])

    for op, operator in DECLARED["tflite"].items():
        assert needed.get(op, set()) == set(operator.known), op


def built(case: Any) -> tuple[Writer, tuple[int, ...]]:
    writer = Writer()
    return writer, case(writer)
