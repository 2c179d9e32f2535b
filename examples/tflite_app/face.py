"""Find a face by BlazeFace, cut it out, and mark its 468 points, on LiteRT; with delegates beside it without.

python -m examples.tflite_app.face --delegate libblazeface.so --delegate libface_landmark.so
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from examples.tflite_app.images import resize, sample
from examples.tflite_app.runtimes import Network, image_of, parser, side_by_side

THRESHOLD = 0.5  # probability from which a face counts
LARGER = 1.5  # the cut is that much larger than the box, as the points were trained with
POINTS = 468
GRIDS = ((16, 2), (8, 6))  # of BlazeFace for the front camera: cells along a side, anchors of a cell
EXAMPLES = """\
  python -m examples.tflite_app.face
  python -m examples.tflite_app.face --image people.npy --save points.npy
  python -m examples.tflite_app.face --delegate libblazeface.so --delegate libface_landmark.so"""


@dataclass(frozen=True)
class Face:
    """centre, side: x and y in pixels. angle: of the line through the eyes, in radians. probability: 0 to 1."""

    centre: np.ndarray
    side: np.ndarray
    angle: float
    probability: float


class Pipeline:
    """The two networks and what lies between them."""

    def __init__(self, detector: Network, landmarks: Network) -> None:
        self.detector, self.landmarks = detector, landmarks
        self.anchors = _anchors()

    def face(self, image: np.ndarray) -> Face:
        """The most probable face, where there is one or not."""
        outputs = self.detector.run(resize(image, self.detector.size) / 127.5 - 1)
        boxes, logits = sorted((each[0] for each in outputs), key=lambda each: -each.shape[1])
        best = int(logits[:, 0].argmax())
        scale = np.array([image.shape[1], image.shape[0]])
        moved, side = boxes[best, :2], boxes[best, 2:4]
        pixels = np.array(self.detector.size[::-1])
        # From the first point, the right eye, to the second.
        across = (boxes[best, 6:8] - boxes[best, 4:6]) / pixels * scale
        probability = 1 / (1 + np.exp(-float(np.clip(logits[best, 0], -80, 80))))
        centre = (moved / pixels + self.anchors[best]) * scale
        return Face(centre, side / pixels * scale, float(np.arctan2(across[1], across[0])), probability)

    def points(self, image: np.ndarray) -> np.ndarray:
        """The points of the most probable face: [468, 3], x and y in pixels of the image, and the depth likewise."""
        face = self.face(image)
        side = np.full(2, face.side.max() * LARGER)
        cut = sample(image, face.centre, side, face.angle, self.landmarks.size) / 255
        flat = max(self.landmarks.run(cut), key=lambda each: int(each.size))
        part = flat.reshape(POINTS, 3) / self.landmarks.size[0]
        x, y = ((part[:, axis] - 0.5) * side[0] for axis in (0, 1))
        cosine, sine = np.cos(face.angle), np.sin(face.angle)
        turned = np.stack([x * cosine - y * sine, x * sine + y * cosine, part[:, 2] * side[0]], 1)
        return np.asarray(turned + np.array([*face.centre, 0]))


def _anchors() -> np.ndarray:
    """The centres that boxes are relative to, as parts of the image: [896, 2], x and y."""
    made = []
    for cells, each in GRIDS:
        y, x = (np.mgrid[0:cells, 0:cells] + 0.5) / cells
        made.append(np.repeat(np.stack([x.ravel(), y.ravel()], 1), each, axis=0))
    return np.concatenate(made)


def main(arguments: Sequence[str] | None = None) -> int:
    about = "Find a face and mark its points on LiteRT. With --delegate, both ways in turns: how far apart, how long."
    delegates = "what mavcg build --partial made of the detector; again: of the landmarks"
    options_of = parser("face", about, EXAMPLES, delegates)
    options_of.add_argument("--detector", type=Path, default=Path("blazeface.tflite"), help="blazeface.tflite")
    options_of.add_argument("--landmarks", type=Path, default=Path("face_landmark.tflite"), help="face_landmark.tflite")
    options = options_of.parse_args(arguments)
    models = (options.detector, options.landmarks)
    try:
        if len(options.delegate) not in (0, 2):
            raise ValueError("--delegate: is given once or more than twice; give the detector's and the landmarks'")
        image = image_of(options)
        pipelines = {"without": Pipeline(*(Network(model, None, options.threads) for model in models))}
        if options.delegate:
            both = zip(models, options.delegate, strict=True)
            pipelines["with"] = Pipeline(*(Network(model, library, options.threads) for model, library in both))
    except ValueError as error:
        options_of.error(str(error))
    for name, pipeline in pipelines.items():
        face = pipeline.face(image)
        x, y = face.centre
        print(f"{name}: face at {x:.1f}, {y:.1f}, {face.side[0]:.1f} wide, probability {face.probability:.3f}")
        if face.probability < THRESHOLD:
            print(f"no face: less than {THRESHOLD}")
            return 1
    candidates = {name: partial(each.points, image) for name, each in pipelines.items()}
    return side_by_side(candidates, options)


if __name__ == "__main__":
    sys.exit(main())
