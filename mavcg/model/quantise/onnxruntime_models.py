"""Calls of onnxruntime for `mavcg quantise`: it folds a model, quantises layers of it, and runs models.

Models run without its optimisations: 8-bit layers are then computed as their definitions say, in f32 between exact
conversions, on every machine. Its 8-bit kernels saturate sums on x86 processors without VNNI.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.errors import MavcgError, import_problem
from mavcg.importers.onnx_proto import one_line, onnx_module
from mavcg.model.quantise.layers import give_names, with_following
from mavcg.model.quantise.samples import Sample

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

LEAST_OPSET = 13  # from which QuantizeLinear takes a scale for each channel


def check_installed() -> None:
    """Raise MavcgError, before any work, if onnxruntime is not installed."""
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError as error:
        absent = f"mavcg quantise: needs onnxruntime ({one_line(error)}); pip install 'mavcg[quantise]'"
        raise import_problem(error, absent) from error


@contextmanager
def _words(location: str, verb: str) -> Iterator[None]:
    """Turn errors of onnx and onnxruntime, which have many classes, into one line; keep warnings off the terminal."""
    quiet = logging.getLogger()
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        yield
    except MavcgError:
        raise
    except Exception as error:
        raise MavcgError(
            f"{location}: onnxruntime cannot {verb} it ({one_line(error)}); a file whose operators and shapes "
            "onnx.checker accepts is needed"
        ) from error
    finally:
        quiet.setLevel(level)


def folded_model(path: Path, folder: Path) -> onnx.ModelProto:
    """Return a file's model with constants and batch norms folded, from opset 13 on, each node with a name of its own.

    folder: for files between. Raises: MavcgError.
    """
    onnx_package = onnx_module()
    with _words(str(path), "prepare"):
        from onnxruntime.quantization.shape_inference import quant_pre_process

        model = onnx_package.load(str(path))
        opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), LEAST_OPSET)
        if opset < LEAST_OPSET:
            model = onnx_package.version_converter.convert_version(model, LEAST_OPSET)
        plain, folded = folder / "plain.onnx", folder / "folded.onnx"
        onnx_package.save(model, str(plain))
        quant_pre_process(str(plain), str(folded), skip_symbolic_shape=True)
        made: onnx.ModelProto = onnx_package.load(str(folded))
    give_names(made)
    return made


@dataclass(frozen=True)
class Quantiser:
    """Quantises layers of a folded model by calibration samples.

    unsigned: True for activations in u8, which x86's dot products take; else i8. folder: for files between.
    """

    path: Path
    model: onnx.ModelProto
    samples: Sequence[Sample]
    unsigned: bool
    folder: Path

    def quantise(self, layers: Sequence[str]) -> onnx.ModelProto:
        """Return the model with these layers, and what follows them, in 8 bits. Raises: MavcgError."""
        onnx_package = onnx_module()
        if not layers:
            return self.model
        with _words(str(self.path), "quantise"):
            from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

            source, made = self.folder / "source.onnx", self.folder / "quantised.onnx"
            onnx_package.save(self.model, str(source))
            quantize_static(
                str(source),
                str(made),
                _reader(self.samples),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8 if self.unsigned else QuantType.QInt8,
                weight_type=QuantType.QInt8,
                nodes_to_quantize=with_following(self.model, layers),
            )
            quantised: onnx.ModelProto = onnx_package.load(str(made))
        return quantised


def _reader(samples: Sequence[Sample]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    left = iter(samples)

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Sample | None:
            return next(left, None)

    return Samples()


Run = Callable[[Sample], "list[NDArray[Any]]"]


def runner(model: onnx.ModelProto, location: str, outputs: Sequence[str] = ()) -> Run:
    """Return a function that computes a model's outputs. outputs: other tensors in their place. Raises: MavcgError."""
    onnx_package = onnx_module()
    if outputs:
        own = onnx_package.ModelProto()
        own.CopyFrom(model)
        del own.graph.output[:]
        own.graph.output.extend(onnx_package.ValueInfoProto(name=name) for name in outputs)
        model = own
    with _words(location, "run"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(sample: Sample) -> list[NDArray[Any]]:
        with _words(location, "run"):
            made: list[NDArray[Any]] = session.run(None, dict(sample))
            return made

    return run
