"""A model with every layer in 8 bits that can be, for a network whose precision is given instead of chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.importers.load import import_model
from mavcg.importers.onnx_proto import load_model
from mavcg.model.quantise.errors import model_error
from mavcg.model.quantise.layers import layers_of
from mavcg.model.quantise.onnxruntime_models import Quantiser, check_installed, folded_model, runner
from mavcg.model.quantise.quantise import check_format, content_of, inputs_of
from mavcg.model.quantise.samples import check_samples, free_shapes, read_samples


@dataclass(frozen=True)
class WholeModel:
    """An ONNX file in 8 bits.

    content: its bytes. layers: in 8 bits, of layers_of_floats convolutions and products. samples: calibration inputs.
    error: of the outputs relative to f32 on them, as root mean squares.
    """

    content: bytes
    layers: int
    layers_of_floats: int
    samples: int
    error: float


def quantise_whole(
    path: Path, inputs: Path, shapes: Mapping[str, tuple[int, ...]], unsigned: bool, folder: Path, place: str
) -> WholeModel:
    """Quantise all layers of an ONNX file in f32 that can be, by the calibration inputs of a folder.

    shapes: of inputs with free dimensions; the others have those of the samples. unsigned: activations in u8, which
    x86's dot products take; else i8. folder: for files between. place: of the samples, for messages. Raises: MavcgError
    for a file that is not supported, for bad samples, and if no layer can be in 8 bits.
    """
    check_format(path)
    check_installed()
    names, free = inputs_of(load_model(path))
    samples = read_samples(inputs, names, place)
    plain = import_model(path, {**free_shapes(samples, free), **shapes})  # checks it before another library reads it
    check_samples(samples, {name: plain.types[name] for name in plain.inputs}, inputs, place)
    folded = folded_model(path, folder)
    layers = [node.name for node in layers_of(folded)]
    model = Quantiser(path, folded, samples, unsigned, folder).quantise(layers) if layers else folded
    eight_bits = {output for node in model.graph.node if node.op_type == "DequantizeLinear" for output in node.output}
    converted = [n for n in model.graph.node if n.name in layers and len(n.input) > 1 and n.input[1] in eight_bits]
    if not converted:
        raise MavcgError(f"{path}: has no convolution or product with weights in f32 that can be in 8 bits")
    exact, made = runner(folded, str(path)), runner(model, str(path))
    error = model_error([exact(sample) for sample in samples], (made(sample) for sample in samples))
    return WholeModel(content_of(model, path), len(converted), len(layers), len(samples), error)
