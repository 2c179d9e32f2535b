"""Rows of work of a primitive's stages: the units that threads share, and how evenly.

A stage of 3 rows keeps at most 3 threads busy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from mavcg.specs.primitive import Epilogue, Primitive, Scenario

# Parts (part_counts.py) of a stage without weights, if the primitive has one: the copy of a border, the matrix of
# patches, transforms, the sum of shifted products.
_BESIDE = ("copy", "gather", "patch", "patch_far", "transform", "turn_winograd", "butterfly", "shifted")
_KEPT = 1 << 16  # primitives on scenarios; a selection asks again for each number of threads


@dataclass(frozen=True)
class StageRows:
    """Rows of the stage that computes products, and of the other stages by their parts.

    stages: number of stages; for example 1 plus the copy of a border.
    """

    main: int
    others: Mapping[str, int] = field(default_factory=dict)
    stages: int = 1

    def of(self, part: str) -> int:
        """Return the number of rows of the stage that does a part."""
        return self.others.get(part, self.main)


@lru_cache(_KEPT)
def stage_rows(scenario: Scenario, primitive: Primitive, block: int) -> StageRows:
    """Return the rows of each stage of a primitive that applies, by lowering it. block: channels of a block of CHWc.

    Products are computed by the stage that reads weights, and nothing packs these: they are zeros without memory.
    """
    weights = np.broadcast_to(np.float32(0), scenario.weights_shape)
    stages = primitive.lower(scenario, weights, Epilogue(), block).stages
    reads = [any(operand.base == "weights" for operand in stage.operands) for stage in stages]
    main = next(stage.spec.rows for stage, product in zip(stages[::-1], reads[::-1], strict=True) if product)
    beside = [stage.spec.rows for stage, product in zip(stages, reads, strict=True) if not product]
    if not beside:
        return StageRows(main, stages=len(stages))
    # Transforms before and after the products also turn images that are stored by planes.
    parts = (*_BESIDE, "turn") if not (reads[0] or reads[-1]) else _BESIDE
    return StageRows(main, dict.fromkeys(parts, beside[-1]), len(stages))
