"""Arithmetic counted per instruction, against the definition of each in the Arm Architecture Reference Manual."""

import pytest

from mavcg.passes.asm.isa.operation_count import OperationCount, count_operations, total_operations
from mavcg.passes.asm.isa.syntax import parse_instr


@pytest.mark.parametrize(
    ("code", "flops", "int_ops", "macs"),
    [
        ("fmla v0.4s, v1.4s, v2.4s", 8, 0, 4),
        ("fmla v0.4s, v1.4s, v2.s[1]", 8, 0, 4),
        ("fmla v0.2s, v1.2s, v2.2s", 4, 0, 2),
        ("fmla v0.2d, v1.2d, v2.2d", 4, 0, 2),
        ("fmla v0.8h, v1.8h, v2.8h", 16, 0, 8),
        ("fmla s0, s1, v2.s[1]", 2, 0, 1),
        ("fmadd d0, d1, d2, d3", 2, 0, 1),
        ("fmlal v0.4s, v1.4h, v2.4h", 8, 0, 4),
        ("fadd v0.4s, v1.4s, v2.4s", 4, 0, 0),
        ("fmul s0, s1, s2", 1, 0, 0),
        ("bfdot v0.4s, v1.8h, v2.8h", 16, 0, 8),
        ("bfmmla v0.4s, v1.8h, v2.8h", 32, 0, 16),
        ("sdot v0.4s, v1.16b, v2.16b", 0, 32, 16),
        ("udot v0.4s, v1.16b, v2.4b[1]", 0, 32, 16),
        ("sdot v0.2s, v1.8b, v2.8b", 0, 16, 8),
        ("smmla v0.4s, v1.16b, v2.16b", 0, 64, 32),
        ("smlal v0.4s, v1.4h, v2.h[1]", 0, 8, 4),
        ("smlal2 v0.8h, v1.16b, v2.16b", 0, 16, 8),
        ("smull v0.8h, v1.8b, v2.8b", 0, 8, 8),
        ("sadalp v0.4s, v1.8h", 0, 8, 0),
        ("mla v0.4s, v1.4s, v2.4s", 0, 8, 4),
        ("add v0.4s, v1.4s, v2.4s", 0, 4, 0),
        ("add x0, x1, #16", 0, 0, 0),
        ("ldr q0, [x0]", 0, 0, 0),
        ("mov v0.16b, v1.16b", 0, 0, 0),
        ("fcmgt v0.4s, v1.4s, v2.4s", 0, 0, 0),
        ("nop", 0, 0, 0),
    ],
)
def test_work_of(code: str, flops: int, int_ops: int, macs: int) -> None:
    assert count_operations(parse_instr(code)) == OperationCount(flops, int_ops, macs)


def test_an_8_bit_product_by_smull_smlal2_sadalp_is_as_much_as_one_sdot_s_16_products() -> None:
    codes = ["smull v8.8h, v0.8b, v1.8b", "smlal2 v8.8h, v0.16b, v1.16b", "sadalp v16.4s, v8.8h"]

    assert (
        total_operations(map(parse_instr, codes)).int_ops
        == count_operations(parse_instr("sdot v0.4s, v1.16b, v2.16b")).int_ops
    )
