"""Instructions keep every field through encoder, decoder, assembler and disassembler; bad ones are refused."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.accelerators.image.assembly import instruction_text, parse_instruction
from mavcg.accelerators.isa.encoding import decode_program, encode, encode_program
from mavcg.accelerators.isa.forms import BY_NUMBERS, FORMS, UNITS, VERSION, InstructionForm
from mavcg.accelerators.isa.instruction import AccelInstruction, check_instruction
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.isa.manual import form_table, header_table

ROOT = Path(__file__).parents[4]


def least(form: InstructionForm) -> dict[str, int]:
    """Values that every check admits, each as small as can be."""
    return {field.name: max(field.low, 0) for field in form.fields} | ({"hi": 1} if "hi" in form.by_name else {})


@st.composite
def instructions(draw: st.DrawFn) -> AccelInstruction:
    form = draw(st.sampled_from(list(FORMS.values())))
    values = {f.name: draw(st.one_of(st.just(f.low), st.just(f.high), st.integers(f.low, f.high))) for f in form.fields}
    if "lo" in values:
        values["lo"], values["hi"] = sorted((values["lo"], values["hi"]))
    if form.name == "misc.start":
        values["version"] = VERSION
    if form.name == "misc.eltwise":
        values["op"] %= 6
        for side, shift in (("multiplier", "left"), ("second_multiplier", "second_left")):
            values[shift] = 0 if values[side] else values[shift]
    if form.name == "misc.upsample":
        values["phase_row"] %= values["factor_rows"]
        values["phase_column"] %= values["factor_columns"]
    if form.name == "conv.transposed":
        values["outside"] = 0
    if form.name == "conv.depthwise":
        values |= {"out_channels": values["channels"], "accumulate": 0, "partial": 0}
    others = (1 << len(UNITS)) - 1 & ~(1 << UNITS.index(form.unit))
    return AccelInstruction(form, values, draw(st.integers(0, 31)) & others, draw(st.integers(0, 31)) & others)


@given(st.lists(instructions(), max_size=4))
def test_decoding_undoes_encoding(program: list[AccelInstruction]) -> None:
    code = encode_program(program)

    assert decode_program(code, "code") == program
    assert len(code) == 4 * sum(one.form.words for one in program)


@given(instructions())
def test_parsing_undoes_printing(one: AccelInstruction) -> None:
    assert parse_instruction(instruction_text(one), "line") == one


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_every_field_is_checked_at_its_limits(form: InstructionForm) -> None:
    for field in form.fields:
        for value in (field.low - 1, field.high + 1):
            one = AccelInstruction(form, least(form) | {field.name: value})
            with pytest.raises(MavcgError, match=rf"here: {form.name} .*{field.name}={value}"):
                check_instruction(one, "here")


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_fields_share_no_bit(form: InstructionForm) -> None:
    """Each field alone changes bits that no other field changes."""
    used = 0
    for field, word, bit in form.places:
        assert bit + field.bits <= 32 and 1 <= word < form.words
        mask = (1 << field.bits) - 1 << 32 * word + bit
        assert not used & mask
        used |= mask


def test_header_says_unit_mode_length_and_masks() -> None:
    """Word 0 by the manual's bit numbers, without the encoder's tables."""
    form = FORMS["conv.depthwise"]
    word = int.from_bytes(encode(AccelInstruction(form, least(form), 0b00001, 0b11000))[:4], "little")

    assert (word & 15, word >> 4 & 15, word >> 8 & 31, word >> 13 & 31, word >> 18 & 31) == (2, 1, form.words, 1, 24)
    assert word >> 23 == 0


def test_numbers_of_forms_are_unique() -> None:
    assert len(BY_NUMBERS) == len(FORMS)
    assert all(form.words < 32 for form in FORMS.values())


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_the_manual_has_the_fields(form: InstructionForm) -> None:
    page = (ROOT / "docs" / "accelerator-isa.md").read_text()

    assert form_table(form) in page
    assert header_table() in page


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("conv.sparse", "unknown instruction conv.sparse; known: load.map"),
        ("misc.start", "lacks version"),
        ("misc.start version=1", "version 1 of the instruction set"),
        ("misc.start version=one", "'one' is not a number"),
        ("misc.start version=2 version=2", "each once"),
        ("misc.start version=2 speed=3", "has no field speed"),
        ("misc.end wait=cpu", "unknown unit 'cpu'"),
        ("misc.end wait=misc", "needs no token of its own"),
        ("misc.end at=1,2", "node,row,column,channel"),
        ("load.parameters ddr=0 words=0 to=0", "words=0; give 1 to 16777215"),
        ("load.parameters ddr=0x100000000 words=1 to=0", "ddr=4294967296; give 0 to 4294967295"),
        ("load.parameters ddr=99999999999999999999999 words=1 to=0", "is not a number"),
    ],
)
def test_bad_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(MavcgError, match=f"net.s:7: .*{message}"):
        parse_instruction(line, "net.s:7")


def test_values_that_contradict_each_other_are_refused() -> None:
    for name, values, message in (
        ("pool.max", {"lo": 3, "hi": 2}, "lo must be at most hi"),
        ("misc.upsample", {"phase_row": 1, "factor_rows": 1}, "must be below factor_rows=1"),
        ("conv.depthwise", {"channels": 3, "out_channels": 4}, "as many channels"),
        ("conv.depthwise", {"partial": 1}, "accumulate and partial must be 0"),
        ("misc.eltwise", {"op": 6}, "op=6; give 0 to 5"),
        ("misc.eltwise", {"second_multiplier": 3, "second_left": 1}, "one of them must be 0"),
        ("conv.transposed", {"outside": 1}, "nothing is outside"),
    ):
        form = FORMS[name]
        with pytest.raises(MavcgError, match=message):
            check_instruction(AccelInstruction(form, least(form) | values), "here")


def test_random_words_decode_or_are_refused() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        code = bytearray(chance.randbytes(chance.randrange(0, 100)))
        if len(code) >= 2:  # a header that is often nearly right
            code[0], code[1] = chance.choice((0, 1, 2, 0x12, 3, 4, 0x14)), chance.choice((10, 4, 20, 2, 1))
        try:
            again = encode_program(decode_program(bytes(code), "code"))
        except MavcgError as error:
            assert "code" in str(error)
        else:
            assert again == code
