"""Images as arrays of [height, width, 3] in 0 to 255: read from .npy files, drawn, sampled."""

from pathlib import Path
from typing import Any

import numpy as np

SIZE = 480  # height and width of a drawn image, in pixels

# What a drawn face consists of: offset from its centre (down, right), half height and half width, as parts of the
# image's size; a colour; how soft the edge is.
_OVALS = (
    (-0.06, 0, 0.31, 0.235, (50, 35, 25), 0.1),  # hair
    (0, 0, 0.27, 0.19, (215, 165, 135), 0.1),
    (0.02, 0, 0.22, 0.15, (224, 176, 148), 1),
    *((-0.085, side, 0.012, 0.05, (60, 40, 30), 0.1) for side in (-0.08, 0.08)),  # brows
    *((-0.045, side, 0.02, 0.036, (245, 245, 240), 0.1) for side in (-0.078, 0.078)),  # eyes
    *((-0.045, side, 0.019, 0.019, (60, 40, 30), 0.1) for side in (-0.078, 0.078)),
    *((-0.045, side, 0.008, 0.008, (10, 10, 10), 0.1) for side in (-0.078, 0.078)),
    (0.045, 0, 0.055, 0.016, (205, 150, 120), 1),  # nose
    (0.07, 0, 0.018, 0.032, (190, 130, 105), 0.8),
    (0.135, 0, 0.02, 0.065, (175, 75, 75), 0.1),  # mouth
    (0.134, 0, 0.004, 0.062, (110, 40, 40), 0.1),
)


def read_image(path: Path) -> Any:
    """The image of a .npy file: [height, width, 3], in 0 to 255. Raises: ValueError where it holds none."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; name a .npy file, or leave --image out for a drawn image")
    try:
        image = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: is not a .npy file ({error}); np.save writes one") from None
    if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or min(image.shape) < 2:
        shape = getattr(image, "shape", "an archive")
        raise ValueError(f"{path}: is of shape {shape}; an image is [height, width, 3], at least 2 x 2 pixels")
    if image.dtype != np.uint8:
        raise ValueError(f"{path}: holds {image.dtype}; an image holds uint8, 0 to 255")
    return image.astype(np.float32)


def drawn_face() -> Any:
    """A face before a plain ground: [SIZE, SIZE, 3]."""
    image = np.full((SIZE, SIZE, 3), (120, 140, 150), np.float32)
    down, right = np.mgrid[0:SIZE, 0:SIZE] / SIZE - 0.5
    for y, x, half_height, half_width, colour, soft in _OVALS:
        inside = 1 - ((down - y) / half_height) ** 2 - ((right - x) / half_width) ** 2
        share = np.clip(inside / soft / 3 + 0.5, 0, 1)[..., None]
        image = image * (1 - share) + np.array(colour) * share
    return image.astype(np.float32)


def sample(image: Any, centre: Any, side: Any, angle: float, size: tuple[int, int]) -> Any:
    """A turned rectangle of an image, bilinearly: [size[0], size[1], 3].

    centre, side: x and y, in pixels of the image. angle: in radians, clockwise. size: height and width of the result.
    Pixels beyond the border are those of the border.
    """
    height, width = size
    rows = ((np.arange(height) + 0.5) / height - 0.5)[:, None] * side[1]
    columns = ((np.arange(width) + 0.5) / width - 0.5)[None, :] * side[0]
    x = centre[0] + columns * np.cos(angle) - rows * np.sin(angle) - 0.5
    y = centre[1] + columns * np.sin(angle) + rows * np.cos(angle) - 0.5
    x, y = np.clip(x, 0, image.shape[1] - 1), np.clip(y, 0, image.shape[0] - 1)
    left = np.minimum(x.astype(int), image.shape[1] - 2)
    top = np.minimum(y.astype(int), image.shape[0] - 2)
    x, y = (x - left)[..., None], (y - top)[..., None]
    upper = image[top, left] * (1 - x) + image[top, left + 1] * x
    lower = image[top + 1, left] * (1 - x) + image[top + 1, left + 1] * x
    return (upper * (1 - y) + lower * y).astype(np.float32)


def resize(image: Any, size: tuple[int, int]) -> Any:
    """The whole image in another size: [size[0], size[1], 3]."""
    side = np.array([image.shape[1], image.shape[0]])
    return sample(image, side / 2, side, 0, size)
