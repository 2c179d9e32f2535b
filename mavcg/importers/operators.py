"""The operators that the importers support, by format, with what has to be known when a library is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mavcg.importers.caffe_ops.table import LAYERS
from mavcg.importers.call import declared_at_build
from mavcg.importers.onnx_ops.table import HANDLERS as ONNX_HANDLERS
from mavcg.importers.onnx_ops.table import MICROSOFT
from mavcg.importers.tflite_ops.table import HANDLERS as TFLITE_HANDLERS

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


def operators() -> dict[str, tuple[FileOperator, ...]]:
    """Return the operators of each format, in alphabetical order."""
    onnx = {domain: {op: h for (d, op), h in ONNX_HANDLERS.items() if d == domain} for domain in ("", MICROSOFT)}
    caffe = {"Input": FileOperator("Input", (), False)} | {name: FileOperator(name, (), False) for name in LAYERS}
    return {
        "onnx": _operators_of(onnx[""]),
        f"onnx {MICROSOFT}": _operators_of(onnx[MICROSOFT]),
        "tflite": _operators_of(TFLITE_HANDLERS),
        "caffe": tuple(caffe[name] for name in sorted(caffe, key=str.lower)),
    }


def _operators_of(handlers: Mapping[str, Callable[..., Any]]) -> tuple[FileOperator, ...]:
    declared = {name: declared_at_build(handler) for name, handler in handlers.items()}
    return tuple(FileOperator(name, declared[name].inputs, declared[name].result) for name in sorted(declared))
