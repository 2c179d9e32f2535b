"""Drawings as PNG: what is drawn where, and what no drawing of ours has."""

import io

import numpy as np
import pytest

from mavcg.drawing.svg_png import png_of

matplotlib = pytest.importorskip("matplotlib")
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="100" height="50" font-size="12">'


def pixels(body: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png_of(f"{HEAD}{body}</svg>"))))


def test_shapes_lie_where_the_drawing_says() -> None:
    picture = pixels(
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        '<g transform="translate(10 20)"><title>unseen</title>'
        '<rect x="0" y="0" width="20" height="10" fill="#ff0000"/></g>'
        '<path d="M60 5V45" stroke="#0000ff" stroke-width="4"/><circle cx="80" cy="25" r="5" fill="#00ff00"/>'
    )
    assert picture.shape[:2] == (100, 200)  # two pixels a unit
    at = {
        name: tuple(picture[2 * y, 2 * x, :3])
        for name, (x, y) in {"rect": (20, 25), "line": (60, 25), "circle": (80, 25), "ground": (45, 25)}.items()
    }
    assert at == {"rect": (1, 0, 0), "line": (0, 0, 1), "circle": (0, 1, 0), "ground": (1, 1, 1)}


def test_a_pattern_is_a_hatched_fill() -> None:
    pattern = '<pattern id="p"><rect width="6" height="6" fill="#ffffff"/><path d="M0 0V6" stroke="#ff0000"/></pattern>'
    picture = pixels(f'<defs>{pattern}</defs><rect x="0" y="0" width="100" height="50" fill="url(#p)"/>')
    reds = np.count_nonzero(picture[:, :, 1] < 0.5)
    assert 0 < reds < picture.shape[0] * picture.shape[1] / 2


def test_text_is_text_although_it_has_dollars() -> None:
    assert np.count_nonzero(pixels('<text x="5" y="20" fill="#000000">a $x^2$ b</text>')[:, :, 3] > 0.5) > 20


def test_the_same_drawing_makes_the_same_bytes() -> None:
    drawing = f'{HEAD}<text x="5" y="20">ab</text></svg>'
    assert png_of(drawing) == png_of(drawing)


def test_a_very_tall_drawing_is_drawn_smaller() -> None:
    head = png_of('<svg xmlns="http://www.w3.org/2000/svg" width="10" height="60000"/>')[:24]
    assert int.from_bytes(head[20:24]) == 30_000


@pytest.mark.parametrize(
    "body", ["<ellipse/>", '<path d="M0 0C1 1 2 2 3 3" stroke="red"/>', '<g transform="scale(2)"/>']
)
def test_an_element_that_no_drawing_has_is_an_error(body: str) -> None:
    with pytest.raises(ValueError, match="ellipse|path|scale"):
        png_of(f"{HEAD}{body}</svg>")
