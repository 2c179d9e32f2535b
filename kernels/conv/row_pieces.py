"""Pixels that lie evenly in memory, seen as rows of another length: a 1x1 convolution does not care where rows end."""

from collections.abc import Sequence

from mavcg.specs.kernel import View

# The least pixels of a piece of a long row: so many that weights, read once a piece, cost little beside the arithmetic.
LEAST_PIXELS = 16


def in_pieces(views: Sequence[View], most: int) -> tuple[View, ...]:
    """Return the same images, all N, H, W, C of equally many pixels, with their pixels as rows of LEAST_PIXELS to
    `most`, or as one row where they are few; as they were where the distance between pixels is not constant or no such
    length divides them.
    """
    pixels = views[0].shape[0] * views[0].shape[1] * views[0].shape[2]
    whole = [n for n in range(LEAST_PIXELS, most + 1) if pixels % n == 0]
    width = pixels if pixels <= most else max(whole, default=0)
    if not width or not all(map(_even, views)):
        return tuple(views)

    def again(view: View) -> View:
        pitch = _pitch(view)
        return View(view.dtype, (1, pixels // width, width, view.shape[3]), (0, width * pitch, pitch, view.strides[3]))

    return tuple(map(again, views))


def _pitch(view: View) -> int:
    """Return the number of elements from a pixel to the next."""
    for length, stride in zip(view.shape[2::-1], view.strides[2::-1], strict=True):
        if length > 1:
            return stride
    return view.shape[3]


def _even(view: View) -> bool:
    """True if the distance between pixels is the same everywhere, across rows and images too."""
    pitch, (n, h, w, _) = _pitch(view), view.shape
    return (h == 1 or view.strides[1] == w * pitch) and (n == 1 or view.strides[0] == h * w * pitch)
