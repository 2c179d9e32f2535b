"""Cuts of an image's pixels, and of output channels, into pieces of work for the products of im2 and kn2."""

from dataclasses import dataclass

from mavcg.kernels.primitives.matrix_product import (
    PANEL,
)

STRIP_PIXELS = 64  # pixels of a piece: weights are reused often, and the patches stay in a level-2 cache
FEW_PIECES = 8  # with fewer pieces the output channels are cut too, so that all threads have work
LEAST_CHANNELS = 32  # minimum output channels of such a part


@dataclass(frozen=True)
class PixelPieces:
    """A cut of an image's pixels into pieces: some whole rows each, or parts of one row.

    rows, columns: size of every piece but the last of the image or of a row.
    """

    height: int
    width: int
    rows: int
    columns: int

    @property
    def across(self) -> int:
        """Number of pieces of a row."""
        return -(-self.width // self.columns)

    @property
    def count(self) -> int:
        """Number of pieces of the image."""
        return -(-self.height // self.rows) * self.across

    @property
    def rest(self) -> tuple[int, int]:
        """(rows, columns) of the last piece of the image, or of each row."""
        if self.across > 1:
            return 1, self.width - (self.across - 1) * self.columns
        return self.height - (self.count - 1) * self.rows, self.columns


def pieces_of(height: int, width: int, one_row: bool) -> PixelPieces:
    """Cut an image of height x width pixels into pieces of about STRIP_PIXELS.

    one_row: a piece must lie within one row.
    """
    if one_row or width >= STRIP_PIXELS:
        columns = -(-width // -(-width // STRIP_PIXELS))
        return PixelPieces(height, width, 1, min(width, -(-columns // PANEL) * PANEL))
    down = -(-height // max(1, STRIP_PIXELS // width))
    return PixelPieces(height, width, -(-height // down), width)


def channels_of_part(channels: int, pieces: int) -> int:
    """Return the output channels of a part: all of a group unless there are too few pieces for threads to share."""
    parts = -(-FEW_PIECES // pieces)
    return channels if parts == 1 else min(channels, max(LEAST_CHANNELS, -(-channels // (parts * PANEL)) * PANEL))
