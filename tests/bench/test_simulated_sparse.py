"""The constant of sparse products: rows with zeros, and where it is written."""

import pytest

from bench.simulated_fits import with_constant
from bench.simulated_sparse import LAYERS, record_of
from mavcg.hardware.cost_fit import IN_ORDER
from mavcg.profiles.folders import files
from mavcg.specs.primitive import Scenario


def test_every_kind_has_a_constant_that_can_be_written() -> None:
    for kind in ("in-order", "out-of-order-aarch64"):
        text = files("fits")[kind].read_text(encoding="utf-8")
        line = next(s for s in with_constant(text, "primitives", "sparse", 7.5, "m", "why").splitlines() if "7.5" in s)
        assert line.startswith("sparse = { value = 7.5") and 'fitted_on = "m", source = "why"' in line
    assert len(set(LAYERS)) == len(LAYERS)


@pytest.mark.long
def test_rows_are_of_weights_with_zeros() -> None:
    record = record_of(IN_ORDER, (Scenario(16, 6, 6, 1, 1, 16),))
    assert record["rows"] >= 6 and record["sparse"] > 0
    assert all("sparsity=0," not in row["scenario"].split("block_")[0] for row in record["rows_simulated"])
    assert all(row["cycles"] > 0 and row["factor"] >= 0 for row in record["rows_simulated"])
