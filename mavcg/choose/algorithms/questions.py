"""Options of a selection: for a library, or for cores of a board by `mavcg select`."""

import math
from dataclasses import dataclass
from pathlib import Path

from mavcg.choose.algorithms.costs.node_costs import SafetyFactors
from mavcg.choose.algorithms.strategies import PBQP, TIME_LIMIT_S
from mavcg.specs.foreign_library import ForeignLibrary


@dataclass(frozen=True)
class ModelQuestion:
    """Options of a selection for a library.

    strategy: of mavcg.choose.algorithms.strategies. db: cost database; None for this user's, if any. max_error,
    max_workspace_bytes: of each primitive. safety_factors: of alternatives to the engine's default; None for those of
    the fastest core's kind.
    """

    strategy: str = PBQP
    db: Path | None = None
    max_error: float = math.inf
    max_workspace_bytes: int | None = None
    time_limit_s: float = TIME_LIMIT_S
    safety_factors: SafetyFactors | None = None


@dataclass(frozen=True)
class SelectQuestion:
    """Options of a selection.

    core: of the board, or several separated by commas; "" for its fastest. threads: each on its own core. max_error,
    max_workspace_bytes: of each primitive. max_arena_bytes: of live images, conversions and workspace together. shared:
    count conversions of an image that several nodes read once. db: cost database; None for this user's, if any.
    foreign: libraries whose primitives are candidates too, on this machine only.
    """

    strategy: str = PBQP
    core: str = ""
    max_error: float = math.inf
    max_workspace_bytes: int | None = None
    shared: bool = False
    db: Path | None = None
    time_limit_s: float = TIME_LIMIT_S
    threads: int = 1
    max_arena_bytes: int | None = None
    foreign: tuple[ForeignLibrary, ...] = ()
