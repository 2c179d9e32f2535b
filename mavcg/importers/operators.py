"""The operators that the importers support, by format, with what has to be known when a library is built."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.importers.caffe_ops.table import LAYERS
from mavcg.importers.call import declared_at_build
from mavcg.importers.onnx_loops import LOOPS
from mavcg.importers.onnx_ops.table import FAMILIES, MICROSOFT, ML, ONNX, TRAINING
from mavcg.importers.onnx_ops.table import HANDLERS as ONNX_HANDLERS
from mavcg.importers.tflite_control import CONTROL
from mavcg.importers.tflite_ops.table import HANDLERS as TFLITE_HANDLERS
from mavcg.importers.tflite_variables import OPERATORS

RUN, PARTLY, BUILD = "run", "partly", "build"


@dataclass(frozen=True)
class FileOperator:
    """An operator of a format. known: inputs that must be known at build. result: its results are known then, too."""

    name: str
    known: tuple[str, ...]
    result: bool

    @property
    def kind(self) -> str:
        """RUN: all inputs may be computed in a run. PARTLY: those that are not in `known`. BUILD: results are known."""
        return BUILD if self.result else PARTLY if self.known else RUN


BRANCH = FileOperator("If", ("condition",), False)
OF_SUBGRAPHS = tuple(FileOperator(name, (), False) for name in (*OPERATORS, *CONTROL))  # of TFLite


def operators() -> dict[str, tuple[FileOperator, ...]]:
    """Return the operators of each format, in alphabetical order."""
    onnx: dict[str, dict[str, Callable[..., Any]]] = {
        domain: {op: h for (d, op), h in ONNX_HANDLERS.items() if d == domain} for domain in FAMILIES
    }
    onnx[ONNX] |= LOOPS
    caffe = {"Input": FileOperator("Input", (), False)} | {name: FileOperator(name, (), False) for name in LAYERS}
    return {
        **{_format(domain): _operators_of(own, (BRANCH,) if domain == ONNX else ()) for domain, own in onnx.items()},
        "tflite": _operators_of(TFLITE_HANDLERS, OF_SUBGRAPHS),
        "caffe": tuple(caffe[name] for name in sorted(caffe, key=str.lower)),
    }


def _format(domain: str) -> str:
    return f"onnx {domain}".strip()


def _operators_of(
    handlers: Mapping[str, Callable[..., Any]], others: Sequence[FileOperator] = ()
) -> tuple[FileOperator, ...]:
    """Return the operators of handlers, and others, in alphabetical order."""
    declared = {name: declared_at_build(handler) for name, handler in handlers.items()}
    own = (FileOperator(name, known.inputs, known.result) for name, known in declared.items())
    return tuple(sorted((*own, *others), key=lambda operator: operator.name))


TITLES = {
    _format(ONNX): "ONNX operators; supported too are those that the standard or the file defines by others of these",
    _format(MICROSOFT): f"Operators of onnxruntime's own domain (`{MICROSOFT}`)",
    _format(ML): f"Operators of ONNX's domain for trees and tables (`{ML}`)",
    _format(TRAINING): f"Updates of tensors by gradients (`{TRAINING}`)",
    "tflite": "TFLite",
    "caffe": "Caffe, layers of a prototxt in the spelling of today (`layer`) and before 2015 (`layers`)",
}
WIDTH = 120


def operators_json() -> dict[str, list[dict[str, Any]]]:
    """Return the document of `mavcg build --operators --json`: by format, name, inputs known at build, and kind."""
    return {
        format: [{"name": o.name, "known_at_build": list(o.known), "kind": o.kind} for o in listed]
        for format, listed in operators().items()
    }


def operators_page() -> str:
    """Return the section of docs/operators.md with all operators, which tests compare with the page."""
    return "\n\n".join(_paragraph(f"{TITLES[format]}:") + _lists(listed) for format, listed in operators().items())


def _lists(listed: Sequence[FileOperator]) -> str:
    kinds = {kind: [o for o in listed if o.kind == kind] for kind in (RUN, PARTLY, BUILD)}
    text = "\n\n" + _paragraph("- All inputs may be computed in a run: " + ", ".join(o.name for o in kinds[RUN]), "  ")
    for kind, words in (
        (PARTLY, "- Inputs in brackets must be known when the library is built, others may be computed in a run: "),
        (BUILD, "- Computed when the library is built; inputs in brackets must be known then, of others the shape: "),
    ):
        if kinds[kind]:
            text += "\n" + _paragraph(words + ", ".join(_with_inputs(o) for o in kinds[kind]), "  ")
    return text


def _with_inputs(operator: FileOperator) -> str:
    return f"{operator.name} ({', '.join(operator.known)})" if operator.known else operator.name


def _paragraph(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
