"""A BLAS where bf16 is hidden: the core's own code for the other types, from the table that the selector reads."""

import re

from mavcg.hardware.feature_levels import lower_levels
from mavcg.profiles.load import load_core
from mavcg.runtime.blas_build import BlasSymbols, blas_tables_text
from mavcg.runtime.coreset import CoreSet
from mavcg.specs.blas_blocks import ITEM_BYTES, PRODUCT_TYPES, BlasBlocks


def test_a_level_shares_the_tables_of_the_types_that_it_has() -> None:
    x2 = load_core("cortex-x2")
    noi8mm = lower_levels(x2, x2.extensions)[0]
    blocks = [BlasBlocks(dtype, 8, 1, 1, 256, 64, 512, 0) for dtype in PRODUCT_TYPES]
    tiles = {dtype: [f"{dtype}_tile", f"{dtype}_tall"] for dtype in PRODUCT_TYPES}
    others = {dtype: [f"{dtype}_vector"] for dtype in ITEM_BYTES}
    kernels = [*sum(tiles.values(), []), *sum(others.values(), [])]
    needs = {f"{kernel}.{label}": frozenset[str]() for kernel in kernels for label in ("generic", "cortex-x2")}
    needs["bf16_tile.cortex-x2"] = frozenset({"bf16"})
    symbols = BlasSymbols(tiles, others, others)
    text = blas_tables_text(blocks, CoreSet((x2, noi8mm)), symbols, needs, {"generic": 1, "cortex-x2": 9})

    declared = dict(re.findall(r'(\w+) __asm__\("([^"]+)"\)', text))

    def run(stem: str, dtype: str) -> list[list[str]]:
        """The symbols of a type's functions, by version."""
        rows = re.search(rf"{stem}_versions\[.*?\]\[4\] = {{(.*?)\n}};", text, re.DOTALL)
        assert rows is not None
        tables = re.findall(rf"{stem}_{dtype}_\d", rows[1])
        return [[own for name, own in declared.items() if name.startswith(f"{table}_")] for table in tables]

    own = ["f32_tile.cortex-x2", "f32_tall.cortex-x2"]
    assert run("product", "f32") == [["f32_tile.generic", "f32_tall.generic"], own, own]
    assert run("product", "bf16")[1:] == [
        ["bf16_tile.cortex-x2", "bf16_tall.cortex-x2"],
        ["bf16_tile.generic", "bf16_tall.cortex-x2"],
    ]
    assert run("dot", "f64") == [["f64_vector.generic"], *[["f64_vector.cortex-x2"]] * 2]
    assert "9, /* cortex-x2-noi8mm */" in text and text.count("product_f32_2") == 0
