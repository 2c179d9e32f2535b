"""A model in the form that each runtime reads, and the environment that the runtimes are installed in.

Converted files lie beside the models, in folders that are named after the model's bytes, the versions of the peers and
the code that converts: what is there already is not made again.
"""

import hashlib
import inspect
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environments import environment
from bench.models import model_path
from bench.runners import CONVERTED_TFLITE, built_library
from bench.wheels import cache_folder
from mavcg.errors import MavcgError

REQUIREMENTS = Path(__file__).with_name("peers-requirements.txt")
WRITERS = tuple(Path(__file__).with_name(name) for name in ("tflite_writer.py", "tflite_file.py"))
PEERS = ("onnxruntime", "openvino", "litert", "ncnn", "mnn")
FIRST_SOFTMAX_OF_ONE_AXIS = 13  # opset: before it Softmax flattens its input, and its axis is 1 where none is given


@dataclass(frozen=True)
class Prepared:
    """The model in each runtime's form, or the reason why there is none."""

    files: Mapping[str, Path]
    reasons: Mapping[str, str]


def peers_python() -> Path:
    """Return the interpreter of the peers' environment, which is created, again if the requirements have changed.

    Raises: MavcgError if it cannot be created.
    """
    home = cache_folder().parent / "peers-venv"
    install = ("--no-deps", "-r", str(REQUIREMENTS))
    with environment(home, _digest(REQUIREMENTS.read_bytes()), install) as python:
        return python


def prepared(name: str, runtimes: Sequence[str], precision: str = "f32") -> Prepared:
    """Return the model for each of these runtimes; it is built or converted if missing.

    precision: of mavcg's library; the others read the model as it is.
    """
    source = model_path(name)
    files: dict[str, Path] = {}
    reasons: dict[str, str] = {}
    for runtime in runtimes:
        try:
            files[runtime] = _for_runtime(runtime, source, precision)
        except (MavcgError, RuntimeError) as error:
            reasons[runtime] = str(error)
    return Prepared(files, reasons)


def _for_runtime(runtime: str, source: Path, precision: str) -> Path:
    if source.suffix == ".tflite":
        if runtime == "onnxruntime":
            raise MavcgError("reads no .tflite")
        if runtime == "ncnn":
            raise MavcgError("has no converter of .tflite")
        if runtime in ("litert", "openvino"):
            return source
    elif runtime in ("onnxruntime", "openvino"):
        return _made(source, "plain.onnx", write_explicit_form)
    return built_library(source, precision) if runtime == "mavcg" else _made(source, *_CONVERSIONS[runtime])


def _made(source: Path, name: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a file made from a model. make: writes into an empty folder; `name`: the file among its output."""
    code = [inspect.getsource(maker).encode() for maker in (make, write_explicit_form, _fold_pads, _name_global_means)]
    code += [path.read_bytes() for path in WRITERS if make is _to_tflite]
    digest = _digest(source.read_bytes(), REQUIREMENTS.read_bytes(), *code)
    parent, prefix = cache_folder() / "peers", f"{source.stem}-{name.partition('.')[0]}-"
    folder = parent / f"{prefix}{digest}"
    if not (folder / name).exists():
        for old in parent.glob(f"{prefix}*"):  # of another state of the code: some are of half a gigabyte
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            make(source, Path(scratch))
            for path in sorted(Path(scratch).iterdir(), key=lambda path: path.name == name):
                os.replace(path, folder / path.name)  # the file that says all is there comes last
    return folder / name


def write_explicit_form(source: Path, folder: Path) -> None:
    """The same network in the form that leaves no converter a choice: a batch of one, written out, and the axis of
    Softmax written out, for which some take the default of a later opset; means of whole images by their name. Where
    the file computes shapes, as padding by SAME comes out of PyTorch, they are folded, and paddings put into the
    convolutions that read them: not all peers would do that by themselves."""
    import onnx

    model = onnx.load(source)
    for info in (*model.graph.input, *model.graph.output):
        for number, dim in enumerate(info.type.tensor_type.shape.dim):
            if number == 0 and dim.dim_param:
                dim.dim_value = 1
    if next(o.version for o in model.opset_import if o.domain == "") < FIRST_SOFTMAX_OF_ONE_AXIS:
        for node in model.graph.node:
            if node.op_type == "Softmax" and not node.attribute:
                node.attribute.append(onnx.helper.make_attribute("axis", 1))
    del model.graph.value_info[:]  # shapes of any batch
    _name_global_means(model)
    path = folder / "plain.onnx"
    onnx.save(model, path)
    if any(node.op_type == "Shape" for node in model.graph.node):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # standard operators
        options.optimized_model_filepath = str(folder / "folded.onnx")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        folded = onnx.load(folder / "folded.onnx")
        _fold_pads(folded.graph)
        onnx.save(folded, path)
        (folder / "folded.onnx").unlink()


def _name_global_means(model: Any) -> None:
    """Replace a mean over a window that covers the whole image by GlobalAveragePool, which pnnx needs.

    The window may extend beyond the image if pads do not count.
    """
    import onnx

    def values(node: Any, name: str) -> list[int]:
        return next((list(a.ints) for a in node.attribute if a.name == name), [])

    padded = [n for n in model.graph.node if n.op_type == "AveragePool" and any(values(n, "pads"))]
    if not padded:
        return
    infos = onnx.shape_inference.infer_shapes(model).graph.value_info
    shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in infos}
    for node in padded:
        counted = any(a.name == "count_include_pad" and a.i for a in node.attribute)
        image, windows = shapes.get(node.input[0], [0])[2:], shapes.get(node.output[0], [0])[2:]
        reach = [k - before for k, before in zip(values(node, "kernel_shape"), values(node, "pads"), strict=False)]
        if not counted and windows == [1, 1] and all(r >= n > 0 for r, n in zip(reach, image, strict=True)):
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]


def _fold_pads(graph: Any) -> None:
    """Turn zeros around an image into the pads of the convolutions that read it."""
    from onnx import helper, numpy_helper

    amounts = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for pad in [node for node in graph.node if node.op_type == "Pad"]:
        readers = [node for node in graph.node if pad.output[0] in node.input]
        more = amounts.get(pad.input[1])
        value = amounts.get(pad.input[2], 1) if len(pad.input) > 2 and pad.input[2] else 0
        mode = next((a.s for a in pad.attribute if a.name == "mode"), b"constant")
        if more is None or len(more) != 8 or more[[0, 1, 4, 5]].any() or value != 0 or mode != b"constant":
            continue
        if any(node.op_type != "Conv" for node in readers) or pad.output[0] in {o.name for o in graph.output}:
            continue
        for conv in readers:
            pads = next((a for a in conv.attribute if a.name == "pads"), None)
            old = pads.ints if pads is not None else (0, 0, 0, 0)
            new = [int(a + b) for a, b in zip(old, more[[2, 3, 6, 7]], strict=True)]
            if pads is not None:
                conv.attribute.remove(pads)
            conv.attribute.append(helper.make_attribute("pads", new))
            conv.input[0] = pad.input[0]
        graph.node.remove(pad)


def _input_shape(model: Path) -> tuple[int, ...]:
    """Return the shape of the only input that is not a weight.

    Raises: MavcgError if there are more, or a dimension is free.
    """
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    known = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in known]
    shape = tuple(d.dim_value for d in inputs[0].type.tensor_type.shape.dim)
    if len(inputs) != 1 or 0 in shape:
        raise MavcgError(
            f"{model.name}: has {len(inputs)} inputs, the first of shape {shape}; one of a fixed shape works"
        )
    return shape


def _is_8_bit(model: Path) -> bool:
    import onnx

    return any(n.op_type == "QuantizeLinear" for n in onnx.load(model, load_external_data=False).graph.node)


def _to_ncnn(source: Path, folder: Path) -> None:
    """Convert by pnnx's program: its Python script would need PyTorch."""
    plain = _made(source, "plain.onnx", write_explicit_form)
    if _is_8_bit(plain):
        raise MavcgError("its 8-bit form is made by ncnn2table and ncnn2int8, which no wheel has")
    shape = _input_shape(plain)
    program = next((peers_python().parents[1] / "lib").glob("python*/site-packages/pnnx/pnnx"))
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model.onnx"
        model.symlink_to(plain)
        text = "[" + ",".join(map(str, shape)) + "]f32"
        _run([str(program), str(model), f"inputshape={text}", "fp16=0"], "pnnx", Path(scratch))
        for suffix in (".param", ".bin"):
            shutil.move(Path(scratch) / f"model.ncnn{suffix}", folder / f"ncnn{suffix}")
    (folder / "ncnn.json").write_text(json.dumps({"input": shape}))


def _to_mnn(source: Path, folder: Path) -> None:
    """Convert with MNN's wheel by calling its function: its script mnnconvert would install packages."""
    kind, model = (
        ("TFLITE", source) if source.suffix == ".tflite" else ("ONNX", _made(source, "plain.onnx", write_explicit_form))
    )
    arguments = ["mnnconvert", "-f", kind, "--modelFile", str(model), "--MNNModel", str(folder / "mnn.mnn")]
    code = f"import _tools; _tools.mnnconvert({[*arguments, '--bizCode', 'bench']!r})"
    output = _run([str(peers_python()), "-c", code], "MNN's converter", folder)
    if not (folder / "mnn.mnn").exists():
        raise MavcgError(f"MNN's converter: made nothing ({_last_line(output)})")


def _to_tflite(source: Path, folder: Path) -> None:
    """Convert with bench/tflite_writer.py: LiteRT has no converter for ONNX files."""
    from bench.tflite_writer import tflite_model
    from mavcg.importers.load import import_model

    (folder / f"litert{CONVERTED_TFLITE}").write_bytes(tflite_model(import_model(source, {})))


_CONVERSIONS: Mapping[str, tuple[str, Callable[[Path, Path], None]]] = {
    "ncnn": ("ncnn.param", _to_ncnn),
    "mnn": ("mnn.mnn", _to_mnn),
    "litert": (f"litert{CONVERTED_TFLITE}", _to_tflite),
}


def _run(command: Sequence[str], what: str, folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise MavcgError(f"{what}: ended with status {done.returncode} ({_last_line(done.stderr or done.stdout)})")
    return done.stdout + done.stderr


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:24]
