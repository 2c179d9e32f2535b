"""Code images: relocations against what the emulated code then sees, and clear errors for what needs a linker."""

import pytest

from mavcg.assembly.code_image import CODE_ALIGN, DATA_BASE, assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, start_state
from mavcg.errors import MavcgError, ToolError

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

DATA = """
    .section .rodata.cst16,"aM",@progbits,16
    .p2align 4
.Lbytes:
    .xword 0x1122334455667788, 0x99aabbccddeeff00
    .data
    .p2align 3
    .globl pointer
pointer:
    .xword .Lbytes + 8
number:
    .word 77
    .bss
zeros:
    .zero 64
    .section .rodata.table,"a",@progbits
.Ltable:
    .word .Lone - .Lbase
    .word .Ltwo - .Lbase
"""

# name -> code whose x0 must become the number
CODE = {
    "page": ("adrp x1, .Lbytes\nldr x0, [x1, :lo12:.Lbytes]", 0x1122334455667788),
    "vector": ("adrp x1, .Lbytes\nldr q1, [x1, :lo12:.Lbytes]\nmov x0, v1.d[1]", 0x99AABBCCDDEEFF00),
    "byte": ("adrp x1, .Lbytes+3\nldrb w0, [x1, :lo12:.Lbytes+3]", 0x55),
    "half": ("adrp x1, .Lbytes+2\nldrh w0, [x1, :lo12:.Lbytes+2]", 0x5566),
    "word": ("adrp x1, number\nldr w0, [x1, :lo12:number]", 77),
    "near": ("adr x1, .Lbytes\nldr x0, [x1, #8]", 0x99AABBCCDDEEFF00),
    "literal": ("ldr x0, .Lbytes", 0x1122334455667788),
    "through_pointer": ("adrp x1, pointer\nadd x1, x1, :lo12:pointer\nldr x1, [x1]\nldr x0, [x1]", 0x99AABBCCDDEEFF00),
    "through_got": (
        "adrp x1, :got:pointer\nldr x1, [x1, :got_lo12:pointer]\nldr x1, [x1]\nldr x0, [x1]",
        0x99AABBCCDDEEFF00,
    ),
    "absolute": ("movz x1, #:abs_g1:number\nmovk x1, #:abs_g0_nc:number\nldr w0, [x1]", 77),
    "zero": ("adrp x1, zeros+32\nldr x0, [x1, :lo12:zeros+32]", 0),
    "call": ("stp x29, x30, [sp, #-16]!\nbl seven\nldp x29, x30, [sp], #16", 7),
    "tail": ("b seven", 7),
    "branches": ("mov x0, #0\ncbz x0, .Lseven\nret", 7),
    "bit": ("mov x0, #4\ntbnz x0, #2, seven\nret", 7),
    "jump_table": (
        """adrp x1, .Ltable
        add x1, x1, :lo12:.Ltable
        ldrsw x1, [x1, #4]
        adr x2, .Lbase
        add x1, x1, x2
        br x1
    .Lbase:
    .Lone:
        mov x0, #1
        ret
    .Ltwo:
        mov x0, #2""",
        2,
    ),
}
FUNCTIONS = "".join(f"\t.globl {name}\n{name}:\n{code}\n\tret\n" for name, (code, _) in CODE.items())
SEVEN = '\t.section .text.seven,"ax",@progbits\n\t.globl seven\nseven:\n.Lseven:\n\tmov x0, #7\n\tret\n'


def test_relocated_code_sees_its_data_and_its_functions() -> None:
    image = assemble_image(f"{DATA}\t.text\n{FUNCTIONS}{SEVEN}")
    machine = EmulatedCore(image)
    outcomes = {name: machine.run(name, start_state(1)) for name in CODE}
    assert {name: o.end for name, o in outcomes.items()} == dict.fromkeys(CODE, End.RETURNED)
    assert {name: o.x[0] for name, o in outcomes.items()} == {name: value for name, (_, value) in CODE.items()}


def test_data_stays_where_it_is_when_code_grows() -> None:
    code = "\t.text\nf:\n" + "\tnop\n" * 3000 + "\tret\n"
    data = DATA[: DATA.index("    .section .rodata.table")]
    small, large = assemble_image(f"{data}\t.text\nf:\n\tret\n"), assemble_image(data + code)
    assert small.symbols["pointer"] == large.symbols["pointer"]
    assert DATA_BASE <= large.symbols["pointer"] < DATA_BASE + CODE_ALIGN <= large.symbols["f"]


def test_data_written_in_one_run_is_as_new_in_the_next() -> None:
    machine = EmulatedCore(
        assemble_image(
            "\t.data\nn:\n\t.word 5\n\t.text\nf:\n\tadrp x1, n\n\tldr w0, [x1, :lo12:n]\n\tadd w2, w0, #1\n"
            "\tstr w2, [x1, :lo12:n]\n\tret\n"
        )
    )
    assert [machine.run("f", start_state(seed)).x[0] for seed in (1, 2)] == [5, 5]


def test_names_are_shown_for_addresses() -> None:
    image = assemble_image("\t.text\nf:\n\tnop\n\tbl memcpy\n\tret\ng:\n\tret\n")
    assert image.location(image.symbols["f"] + 4) == "f+0x4"
    assert image.location(image.symbols["g"]) == "g+0x0"
    assert [image.location(address) for address in image.externals] == ["memcpy"]
    assert image.location(0x42) == "0x42"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ldr x0, elsewhere", r"kernel: \.text\+0x4: 'elsewhere' is out of reach of R_AARCH64_LD_PREL_LO19"),
        ("adrp x0, :tlsdesc:f", "relocation type 562 .* needs a linker"),
        ("mrs x1, tpidr_el0\nadd x0, x1, :tprel_hi12:f", "R_AARCH64_TLSLE_ADD_TPREL_HI12.* needs a linker"),
        ("tbz x0, #1, far", "'.text.far' is out of reach of R_AARCH64_TSTBR14"),
    ],
)
def test_what_needs_a_linker_is_named(code: str, message: str) -> None:
    far = '\t.section .text.far,"ax",@progbits\n\t.zero 0x20000\nfar:\n\tret\n'
    with pytest.raises(MavcgError, match=message):
        assemble_image(f"\t.text\nf:\n\tnop\n{code}\n{far}", "kernel")


@pytest.mark.parametrize(
    "code",
    [
        "adrp x1, elsewhere\nadd x1, x1, :lo12:elsewhere",
        "adrp x1, :got:elsewhere\nldr x1, [x1, :got_lo12:elsewhere]",
        "ldr x1, .Lpool\nb .Lover\n.p2align 3\n.Lpool: .xword elsewhere\n.Lover:",
    ],
)
def test_data_that_is_not_in_the_text_has_an_address_with_the_seeds_bytes_or_zeroes(code: str) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    image = assemble_image(f"\t.text\nf:\n{code}\nldr q0, [x1, #16]\nret\n")
    (at,) = image.external_data
    assert image.external_data[at] == "elsewhere" and "elsewhere" not in image.symbols

    outcomes = [EmulatedCore(image).run("f", start_state(seed)) for seed in range(8)]

    assert all(outcome.end == End.RETURNED and outcome.x[1] == at for outcome in outcomes)
    assert [seed for seed, outcome in enumerate(outcomes) if outcome.v[0] == 0] == [3, 7]


def test_the_assembler_names_the_line() -> None:
    with pytest.raises(ToolError, match=r"assembling kernel: failed:\n  image.s:3:2: error: unrecognized instruction"):
        assemble_image("\t.text\nf:\n\tfnord x0\n", "kernel")
