"""Reshapes evenly spaced pixels into rows of another length, since a 1x1 convolution may cut rows anywhere."""

from collections.abc import Sequence

from mavcg.specs.kernel import View

# Minimum pixels of a row: the weights are read once per row, and cost little beside the arithmetic of so many pixels.
LEAST_PIXELS = 16


def in_pieces(views: Sequence[View], most: int) -> tuple[View, ...]:
    """Return the same N, H, W, C images with their pixels in rows of LEAST_PIXELS to `most`, or one row of fewer
    pixels.

    views: images with equally many pixels. They are returned unchanged where the distance between pixels is not
    constant, or where no such row length divides the pixels.
    """
    pixels = views[0].shape[0] * views[0].shape[1] * views[0].shape[2]
    whole = [n for n in range(LEAST_PIXELS, most + 1) if pixels % n == 0]
    width = pixels if pixels <= most else max(whole, default=0)
    if not width or not all(map(_evenly_spaced, views)):
        return tuple(views)

    def in_rows(view: View) -> View:
        pitch = _pitch(view)
        return View(view.dtype, (1, pixels // width, width, view.shape[3]), (0, width * pitch, pitch, view.strides[3]))

    return tuple(map(in_rows, views))


def _pitch(view: View) -> int:
    """Return the distance from a pixel to the next, in elements."""
    for length, stride in zip(view.shape[2::-1], view.strides[2::-1], strict=True):
        if length > 1:
            return stride
    return view.shape[3]


def _evenly_spaced(view: View) -> bool:
    """Return True if the distance between pixels is constant, across rows and images too."""
    pitch, (n, h, w, _) = _pitch(view), view.shape
    return (h == 1 or view.strides[1] == w * pitch) and (n == 1 or view.strides[0] == h * w * pitch)
