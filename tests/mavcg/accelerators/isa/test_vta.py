"""VTA's instructions are laid out as C bit-fields of the published header's widths, and damaged ones are refused."""

import ctypes
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.accelerators.image.assembly import instruction_text, parse_instruction
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import VTA_FORMS, VTA_UNITS, VtaForm, decode_vta, encode_vta, pack_micro_ops
from mavcg.accelerators.simulator.vta_core import alu
from mavcg.errors import MavcgError

FLAGS = ("opcode:3", "pop_prev_dep:1", "pop_next_dep:1", "push_prev_dep:1", "push_next_dep:1")
MOVE = "memory_type:3 sram_base:16 dram_base:32 y_size:16 x_size:16 x_stride:16 y_pad_0:4 y_pad_1:4 x_pad_0:4 x_pad_1:4"
LOOPS = (
    "reset_reg:1 uop_bgn:13 uop_end:14 iter_out:14 iter_in:14 "
    "dst_factor_out:11 dst_factor_in:11 src_factor_out:11 src_factor_in:11 "
)
GEMM, ALU = LOOPS + "wgt_factor_out:10 wgt_factor_in:10", LOOPS + "alu_opcode:3 use_imm:1 imm:16"
OPCODES = {"load": 0, "store": 1, "gemm": 2, "finish": 3, "alu": 4}
MEMORIES = {"load_uops": 0, "weights": 1, "inputs": 2, "load_sums": 3, "outputs": 4, "load_bytes": 5}


def bit_fields(listed: str) -> type[ctypes.LittleEndianStructure]:
    names = [field.split(":") for field in (*FLAGS, *listed.split())]

    class Fields(ctypes.LittleEndianStructure):
        _fields_ = [(name, ctypes.c_uint64, int(bits)) for name, bits in names]

    return Fields


def header_bytes(one: AccelInstruction) -> bytes:
    """The instruction as a C compiler lays the published structures out."""
    mode = one.form.mode
    fields = bit_fields(GEMM if mode == "gemm" else ALU if mode == "alu" else MOVE if mode in MEMORIES else "")()
    fields.opcode = OPCODES[mode if mode in OPCODES else "store" if mode == "outputs" else "load"]
    if mode in MEMORIES:
        fields.memory_type = MEMORIES[mode]
    for name, value in one.values.items():
        setattr(fields, name, value & 0xFFFFFFFF)
    before, after = {"load": (0, 2), "compute": (1, 4), "store": (2, 0)}[one.form.unit]
    fields.pop_prev_dep, fields.pop_next_dep = bool(one.wait & before), bool(one.wait & after)
    fields.push_prev_dep, fields.push_next_dep = bool(one.signal & before), bool(one.signal & after)
    return bytes(fields).ljust(16, b"\0")


@st.composite
def instructions(draw: st.DrawFn) -> AccelInstruction:
    form = draw(st.sampled_from(list(VTA_FORMS.values())))
    values = {f.name: draw(st.one_of(st.just(f.low), st.just(f.high), st.integers(f.low, f.high))) for f in form.fields}
    neighbours = {"load": 2, "compute": 5, "store": 2}[form.unit]
    return AccelInstruction(form, values, draw(st.integers(0, 7)) & neighbours, draw(st.integers(0, 7)) & neighbours)


@given(st.lists(instructions(), max_size=3))
def test_code_is_as_a_c_compiler_lays_it_out_and_decodes(program: list[AccelInstruction]) -> None:
    code = encode_vta(program)

    assert code == b"".join(map(header_bytes, program))
    assert decode_vta(code, "code") == program
    assert [parse_instruction(instruction_text(one), "line") for one in program] == program


def test_a_micro_operation_has_three_indices() -> None:
    assert pack_micro_ops([(2047, 1, 1023)]) == (2047 | 1 << 11 | 1023 << 22).to_bytes(4, "little")


def test_a_token_between_load_and_store_is_refused() -> None:
    form = VTA_FORMS["load.inputs"]
    one = AccelInstruction(form, {field.name: 0 for field in form.fields}, wait=1 << VTA_UNITS.index("store"))

    with pytest.raises(MavcgError, match="each with its neighbours"):
        encode_vta([one])


def test_damaged_code_is_refused_or_decodes_to_itself() -> None:
    chance, refused = random.Random(0), 0
    for _ in range(300):
        code = bytearray(encode_vta([_zeros(form) for form in VTA_FORMS.values() if isinstance(form, VtaForm)]))
        for _ in range(chance.choice((1, 8))):
            code[chance.randrange(len(code))] = chance.randrange(256)
        try:
            assert encode_vta(decode_vta(bytes(code), "code")) == code
        except MavcgError as error:
            assert "code offset" in str(error)
            refused += 1
    assert 50 < refused < 300
    with pytest.raises(MavcgError, match="cut short"):
        decode_vta(bytes(24), "code")


def _zeros(form: VtaForm) -> AccelInstruction:
    return AccelInstruction(form, {field.name: 0 for field in form.fields})


@pytest.mark.parametrize(
    ("op", "first", "second", "result"),
    [
        ("min", -5, 3, -5),
        ("max", -5, 3, 3),
        ("add", 2**31 - 1, 1, -(2**31)),
        ("shr", -5, 1, -3),
        ("shr", 5, -2, 20),
        ("shr", 1, 33, 0),  # five bits of the distance count: 33 is 1
        ("mul", 1 << 30, 4, 0),
        ("mul", 7, 255, -7),  # eight bits of the second operand count
    ],
)
def test_the_alu(op: str, first: int, second: int, result: int) -> None:
    assert alu(op, np.array([first], np.int32), np.asarray(np.int32(second)))[0] == result
