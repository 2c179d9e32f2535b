"""Cells of a synthesis as resources of an FPGA."""

import pytest

from bench.accelerators.accel_synthesis import counts, main
from bench.accelerators.accelerator_tables import accel_synthesis
from mavcg.errors import MavcgError


def test_cells_take_the_resources_of_their_kind() -> None:
    """A carry cell has two lookup tables and a RAM of 16 x 4 bits four; buffers and constants take nothing."""
    cells = {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7, "MULT18X18D": 5, "DP16KD": 4, "L6MUX21": 9}

    made = counts(cells)

    assert made == {"lut4": 10 + 6 + 8, "flip_flops": 7, "multipliers_18x18": 5, "block_rams_18_kbit": 4}
    shown = accel_synthesis({"target": "small", "yosys": "Yosys 0.23 (git sha1 7ce)", **made})
    assert "Yosys 0.23;" in shown and "24" in shown


def test_a_cell_that_is_not_known_is_refused() -> None:
    with pytest.raises(MavcgError, match="ALU54B: not in COUNTED or WITHIN"):
        counts({"LUT4": 10, "ALU54B": 1})


def test_without_yosys_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("amaranth")
    monkeypatch.setattr("sys.argv", ["accel_synthesis"])
    monkeypatch.setattr("mavcg.accelerators.rtl.verilog.yosys_program", lambda: None)

    with pytest.raises(SystemExit, match="Yosys is not there.*Debian's yosys"):
        main()
