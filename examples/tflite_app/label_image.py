"""Classify an image on LiteRT, as TensorFlow Lite's label_image does; with a delegate beside it without.

python -m examples.tflite_app.label_image mobilenet_v2.tflite --delegate libmobilenet_v2.so
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from examples.tflite_app.images import resize
from examples.tflite_app.runtimes import Network, image_of, parser, side_by_side

# Of ImageNet, in 0 to 255: what torchvision's networks were trained with.
MEAN, DEVIATION = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
TOP = 5
EXAMPLES = """\
  python -m examples.tflite_app.label_image mobilenet_v2.tflite
  python -m examples.tflite_app.label_image mobilenet_v2.tflite --image cat.npy --labels labels.txt
  python -m examples.tflite_app.label_image mobilenet_v2.tflite --delegate libmobilenet_v2.so --threads 2"""


def main(arguments: Sequence[str] | None = None) -> int:
    about = "Classify an image on LiteRT. With --delegate, both ways in turns: how far apart, and how long."
    options_of = parser("label_image", about, EXAMPLES, "what mavcg build --partial made of the model")
    options_of.add_argument("model", type=Path, metavar="MODEL.tflite", help="one image in, one score a class out")
    options_of.add_argument("--labels", type=Path, metavar="FILE", help="the classes' names, one a line")
    options = options_of.parse_args(arguments)
    try:
        if len(options.delegate) > 1:
            raise ValueError("--delegate: is given twice; this application has one model")
        image, labels = image_of(options), _labels(options.labels)
        networks = {"without": Network(options.model, None, options.threads)}
        if options.delegate:
            networks["with"] = Network(options.model, options.delegate[0], options.threads)
        classes = networks["without"].run(resize(image, networks["without"].size))[0].size
        if labels and len(labels) != classes:
            raise ValueError(f"{options.labels}: has {len(labels)} names; the model has {classes} classes")
    except ValueError as error:
        options_of.error(str(error))

    def scores(network: Network) -> np.ndarray:
        pixels = (resize(image, network.size) - MEAN) / DEVIATION
        return np.asarray(network.run(pixels.astype(np.float32))[0]).reshape(-1)

    candidates = {name: partial(scores, network) for name, network in networks.items()}
    for name, run in candidates.items():
        score = run()
        best = np.argsort(-score, kind="stable")[:TOP]
        named = ", ".join(f"{labels[i] if labels else f'class {i}'} {score[i]:.3f}" for i in best)
        print(f"{name}: {named}")
    return side_by_side(candidates, options)


def _labels(path: Path | None) -> list[str]:
    if path is None:
        return []
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; leave --labels out for the classes' numbers")
    return path.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    sys.exit(main())
