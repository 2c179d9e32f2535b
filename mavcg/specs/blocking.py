"""The sizes by which a product of matrices is blocked for registers and caches."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocking:
    """Register tile and cache blocks of a product of an m x k by a k x n matrix, in elements.

    mr, nr: rows and columns of a register tile. mc, nc: rows and columns of a block of the result. kc: terms of a
    block. Source: Van Zee and van de Geijn, "BLIS", 2015.
    """

    mr: int
    nr: int
    mc: int
    kc: int
    nc: int
