"""The lists of operators as text: for docs/operators.md and for `mavcg build --operators`."""

import textwrap
from collections.abc import Sequence
from typing import Any

from mavcg.importers.operators import BUILD, PARTLY, RUN, FileOperator, operators

TITLES = {
    "onnx": "ONNX operators; supported too are those that the standard or the file defines by others of these",
    "onnx com.microsoft": "Operators of onnxruntime's own domain (`com.microsoft`)",
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
