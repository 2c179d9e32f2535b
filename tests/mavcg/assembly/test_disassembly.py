"""Machine code back to text: what each instruction does must be what the source's does."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.assembly.asm_source import _ARCH, _PLAIN
from mavcg.assembly.disassembly import CodeFile
from mavcg.errors import MavcgError
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.toolchain.zig import run_zig

FORMS = """
mov x0, x1; mov w0, w1; mov x0, #5; mov x0, #-1; mov w3, #0x12340000; movk x0, #0x1234, lsl #16; movz w8, #1, lsl #16
movn x8, #1; mov v0.16b, v1.16b; mov v0.8b, v1.8b; ins v0.d[1], x9; mov v0.s[1], v1.s[2]; ins v2.h[3], w4
umov w0, v1.b[3]; mov x0, v1.d[1]; mov w0, v1.s[1]; smov x0, v1.h[2]; dup v0.4s, w1; dup v0.4s, v1.s[2]
dup s0, v1.s[2]; movi v0.2d, #0; movi v0.4s, #5; movi v0.4s, #5, lsl #8; movi v0.4s, #5, msl #8; movi v0.16b, #255
movi d0, #0xff00ff00ff00ff00; mvni v0.8h, #3; fmov v0.4s, #1.0; fmov s0, #1.5; fmov s0, w1; fmov x0, d1; fmov d1, xzr
fmov v0.d[1], x3; fmov x3, v0.d[1]; fmov d0, d1; fmov h0, #1.0
ldr q0, [x0]; ldr q0, [x0, #16]; ldr q0, [x0], #16; ldr q0, [x0, #16]!; ldr q0, [x0, x1]; ldr q0, [x0, x1, lsl #4]
ldr d0, [x0, w1, sxtw #3]; ldr d0, [x0, w1, uxtw]; ldur q0, [x0, #-8]; ldr w0, [x1, #4]; ldrb w0, [x1]; ldr b0, [x1], #1
ldrsw x0, [x1, x2, lsl #2]; ldrsh w0, [x1], #2; ldrsb x0, [x1, #3]; ldurh w3, [x1, #-3]; ldr h0, [x1]
ldp q0, q1, [x0]; ldp q0, q1, [x0], #32; ldp d0, d1, [x0, #-16]!; ldp x29, x30, [sp], #16; ldpsw x0, x1, [x2]
ldnp q0, q1, [x0]; stp x29, x30, [sp, #-16]!; str q0, [x1, #-16]!; str wzr, [x1]; stp xzr, xzr, [x0]
strb w0, [x1, w2, sxtw]; ld1 {v0.4s}, [x0]; ld1 {v0.4s}, [x0], #16; ld1 {v0.4s, v1.4s}, [x0], x3
ld1 {v0.4s, v1.4s, v2.4s, v3.4s}, [x0], #64; ld1 {v31.8b, v0.8b}, [x0]; ld1 {v0.s}[1], [x0]; ld1 {v0.d}[1], [x0], #8
ld1 {v0.1d}, [x0]; ld1r {v0.4s}, [x0]; ld1r {v0.4s}, [x0], #4; ld2 {v0.4s, v1.4s}, [x0], #32
ld3 {v0.8b, v1.8b, v2.8b}, [x0]; ld4 {v0.s, v1.s, v2.s, v3.s}[2], [x0]; st1 {v0.4s, v1.4s}, [x0], #32
st1 {v0.h}[5], [x0]; st2 {v0.4s, v1.4s}, [x0]; prfm pldl1keep, [x0, #64]; prfm pstl1strm, [x0, x1]
fmla v0.4s, v1.4s, v2.4s; fmla v0.4s, v1.4s, v2.s[1]; fmla v0.2d, v1.2d, v2.d[1]; fmla v0.8h, v1.8h, v2.h[7]
fmul v0.4s, v1.4s, v2.s[3]; fmls v0.2s, v1.2s, v2.2s; fmla s0, s1, v2.s[1]; fmlal v0.4s, v1.4h, v2.4h
fcmla v0.4s, v1.4s, v2.4s, #90; fcadd v0.4s, v1.4s, v2.4s, #270; sdot v0.4s, v1.16b, v2.16b
udot v0.4s, v1.16b, v2.4b[3]; sdot v0.2s, v1.8b, v2.8b; usdot v0.4s, v1.16b, v2.16b; sudot v0.4s, v1.16b, v2.4b[1]
smmla v0.4s, v1.16b, v2.16b; ummla v0.4s, v1.16b, v2.16b; bfdot v0.4s, v1.8h, v2.8h; bfdot v0.4s, v1.8h, v2.2h[1]
bfmmla v0.4s, v1.8h, v2.8h; bfmlalb v0.4s, v1.8h, v2.8h; bfcvtn v0.4h, v1.4s; smull v0.8h, v1.8b, v2.8b
smull2 v0.8h, v1.16b, v2.16b; smlal v0.4s, v1.4h, v2.h[1]; smlal2 v0.8h, v1.16b, v2.16b; sadalp v0.4s, v1.8h
saddlp v0.4s, v1.8h; sshll v0.8h, v1.8b, #0; sxtl v0.8h, v1.8b; ushll2 v0.8h, v1.16b, #3; sqxtn v0.8b, v1.8h
sqxtun2 v0.16b, v1.8h; sqrdmulh v0.4s, v1.4s, v2.s[1]; sqrdmlah v0.4s, v1.4s, v2.4s; srshl v0.4s, v1.4s, v2.4s
srshr v0.4s, v1.4s, #5; sshr v0.4s, v1.4s, #31; shl v0.4s, v1.4s, #3; sli v0.4s, v1.4s, #3; ssra v0.4s, v1.4s, #3
shrn v0.4h, v1.4s, #3; rshrn2 v0.8h, v1.4s, #3; zip1 v0.4s, v1.4s, v2.4s; trn2 v0.2d, v1.2d, v2.2d
ext v0.16b, v1.16b, v2.16b, #4; rev64 v0.4s, v1.4s; tbl v0.16b, {v1.16b}, v2.16b
tbl v0.16b, {v1.16b, v2.16b}, v3.16b; tbx v0.8b, {v1.16b}, v2.8b; and v0.16b, v1.16b, v2.16b; orr v0.4s, #1
bic v0.8h, #3, lsl #8; bsl v0.16b, v1.16b, v2.16b; bit v0.16b, v1.16b, v2.16b; not v0.16b, v1.16b
cmeq v0.4s, v1.4s, #0; cmgt v0.4s, v1.4s, v2.4s; fcmgt v0.4s, v1.4s, #0.0; fcvtzs v0.4s, v1.4s; fcvtzs v0.4s, v1.4s, #8
scvtf v0.4s, v1.4s, #4; scvtf s0, w1; ucvtf d0, x1; fcvtzs w0, s1; fcvtas w0, s1; fcvt d0, s1; fcvtl v0.4s, v1.4h
fcvtn2 v0.8h, v1.4s; frintn v0.4s, v1.4s; faddp s0, v1.2s; faddp v0.4s, v1.4s, v2.4s; addv s0, v1.4s; addp d0, v1.2d
uaddlv h0, v1.8b; fmaxv s0, v1.4s; fmadd s0, s1, s2, s3; fnmsub d0, d1, d2, d3; fadd s0, s1, s2; fdiv d0, d1, d2
fsqrt v0.4s, v1.4s; frecpe v0.4s, v1.4s; urecpe v0.4s, v1.4s; fcmp s0, s1; fcmp s0, #0.0; fccmp s0, s1, #4, ne
fcsel s0, s1, s2, gt; fabd v0.4s, v1.4s, v2.4s; fneg s0, s1; fnmul s0, s1, s2; sqadd v0.4s, v1.4s, v2.4s
add x0, x1, #4095; add x0, x1, #1, lsl #12; add x0, sp, #16; mov sp, x0; add x0, x1, x2; add x0, x1, x2, lsl #3
add x0, x1, w2, uxtw; add x0, x1, w2, sxtw #2; sub sp, sp, #64; subs x0, x1, #1; adds w0, w1, w2; negs x0, x1
cmp x0, #3; cmp x0, x1; cmp w0, w1, lsl #2; cmn x0, #4; tst x0, #3; neg x0, x1; mvn x0, x1; and x0, x1, #0xff
and x0, x1, #0x7ffffffffffffffc; orr x0, x1, x2, lsr #3; eor w0, w1, w2, ror #5; bic x0, x1, x2; lsl x0, x1, #3
lsr w0, w1, #3; asr x0, x1, #63; lsl x0, x1, x2; ror x0, x1, #3; extr x0, x1, x2, #4; ubfx x0, x1, #3, #5
sbfx w0, w1, #3, #5; ubfiz x0, x1, #3, #5; bfi x0, x1, #3, #5; bfxil x0, x1, #3, #5; sxtw x0, w1; uxtb w0, w1
sxth x0, w1; mul x0, x1, x2; madd w0, w1, w2, w3; msub x0, x1, x2, x3; mneg x0, x1, x2; smull x0, w1, w2
umaddl x0, w1, w2, x3; umulh x0, x1, x2; sdiv x0, x1, x2; csel x0, x1, x2, eq; cset w0, hs; csetm x0, lo
csinc x0, x1, x2, mi; cinc x0, x1, eq; csneg x0, x1, x2, vs; ccmp x0, #3, #4, ne; adc x0, x1, x2; sbcs x0, x1, x2
ngc x0, x1; clz x0, x1; rbit w0, w1; rev x0, x1; rev16 w0, w1; crc32x w0, w1, x2; nop; cnt v0.8b, v1.8b
aese v0.16b, v1.16b; pmull v0.1q, v1.1d, v2.1d; eor3 v0.16b, v1.16b, v2.16b, v3.16b; uabal v0.8h, v1.8b, v2.8b
dmb ish; mrs x0, tpidr_el0; ldxr x0, [x1]; ldar x0, [x1]; bti c; paciasp; add z0.s, z0.s, z1.s; casal x0, x1, [x2]
"""

Build = Callable[..., Path]


@pytest.fixture
def build_file(tmp_path: Path) -> Build:
    """build_file(text): an AArch64 object of this text, or with shared=True a library."""

    def build(
        text: str, shared: bool = False, name: str = "k", target: str = "aarch64-linux-gnu.2.17", strip: bool = False
    ) -> Path:
        source, out = tmp_path / f"{name}.s", tmp_path / (f"{name}.so" if shared else f"{name}.o")
        source.write_text((f"{_ARCH}\n" if "aarch64" in target else "") + text)
        kind = ["-shared", "-nostdlib", *(["-s"] if strip else [])] if shared else ["-c"]
        words = ["-target", target, *_PLAIN, *kind, str(source), "-o", str(out)]
        run_zig("cc", words, "building a test's object")
        return out

    return build


def function(*lines: str, name: str = "f") -> str:
    body = "".join(f"\t{line}\n" if not line.endswith(":") else f"{line}\n" for line in lines)
    return f"\t.text\n\t.globl {name}\n\t.type {name}, %function\n{name}:\n{body}\t.size {name}, .-{name}\n"


def instructions(text: str) -> list[Statement]:
    return [s for s in parse_source(text) if s.kind == "instr"]


def test_every_form_does_what_the_source_did(build_file: Build) -> None:
    forms = [form.strip() for form in FORMS.replace("\n", ";").split(";") if form.strip()]
    text = CodeFile(build_file(function(*forms))).disassemble(["f"]).text

    read = instructions(text)
    assert len(read) == len(forms) > 240
    for form, back in zip(forms, read, strict=True):
        assert back.instr is not None
        assert effects(back.instr) == effects(parse_instr(form)), (form, back.code)


def test_text_of_it_assembles_to_the_same_bytes(build_file: Build) -> None:
    forms = [form.strip() for form in FORMS.replace("\n", ";").split(";") if form.strip()]
    random.Random(1).shuffle(forms)
    first = build_file(function(*forms), name="first")

    second = build_file(CodeFile(first).disassemble(["f"]).text, name="second")

    assert CodeFile(second).disassemble(["f"]).text == CodeFile(first).disassemble(["f"]).text


LOOP = (
    "cbz x2, .Lend",
    ".Ltop:",
    "ldr q1, [x0], #16",
    "fmla v0.4s, v1.4s, v1.4s",
    "subs x2, x2, #1",
    "tbnz w3, #3, .Lend",
    "b.ne .Ltop",
    ".Lend:",
    "ret",
)


@pytest.mark.parametrize("shared", [False, True])
def test_jumps_lead_to_labels(build_file: Build, shared: bool) -> None:
    code = CodeFile(build_file(function("nop", name="before") + function(*LOOP), shared))
    shown = code.disassemble(["f"])

    (found,) = functions_of(parse_source(shown.text))
    assert [block.in_loop for block in found.blocks] == [False, True, True, False]
    assert [len(block.lines) for block in found.blocks] == [1, 4, 1, 1]
    start = code.symbols["f"].start
    assert [address - start for address in shown.addresses.values()] == list(range(0, 4 * 7, 4))
    for line, address in shown.addresses.items():
        if address == start + 4:
            assert shown.text.splitlines()[line - 1].split() == ["ldr", "q1,", "[x0],", "#0x10"]


def test_calls_name_what_they_call(build_file: Build) -> None:
    text = function("bl g", "bl other", "b f2", name="f") + function("ret", name="g") + function("ret", name="f2")
    code = build_file(text)

    called = [str(s.code.split()[1]) for s in instructions(CodeFile(code).disassemble(["f"]).text)]
    assert called == ["g", "other", "f2"]


def test_names_with_other_signs_are_quoted(build_file: Build) -> None:
    text = function("ret", name='"f.cortex-a55"')
    shown = CodeFile(build_file(text)).disassemble(["f.cortex-a55"])

    assert [f.name for f in functions_of(parse_source(shown.text))] == ["f.cortex-a55"]


def test_data_between_code_is_no_code(build_file: Build) -> None:
    shown = CodeFile(build_file(function("nop", ".word 0xd65f03c0", "ret"))).disassemble(["f"])

    lines = [line.split("\t")[1] for line in shown.text.splitlines() if line.startswith("\t")]
    assert lines == [".text", ".globl", ".type", "nop", ".byte", "ret", ".size"]


def test_words_that_are_no_instruction_stay_words(build_file: Build) -> None:
    shown = CodeFile(build_file(function(".inst 0xffffffff", "ret"))).disassemble(["f"])

    assert ".inst\t0xffffffff" in shown.text
    assert [s.kind for s in parse_source(shown.text)].count("instr") == 1


def test_hand_written_functions_without_size_or_type(build_file: Build) -> None:
    code = CodeFile(build_file("\t.text\n\t.globl a\na:\n\tnop\n\tret\n\t.globl b\nb:\nlocal:\n\tret\n"))

    assert {name: symbol.size for name, symbol in code.symbols.items()} == {"a": 8, "b": 4}


def test_sections_of_an_object_do_not_mix(build_file: Build) -> None:
    text = "".join(
        function(*LOOP, name=name).replace(".text", f'.section .text.{name},"ax"').replace(".L", f".L{name}")
        for name in ("a", "b")
    )
    shown = CodeFile(build_file(text)).disassemble(["a", "b"])

    a, b = functions_of(parse_source(shown.text))
    assert [len(block.lines) for block in a.blocks] == [len(block.lines) for block in b.blocks] == [1, 4, 1, 1]
    assert not {label for block in a.blocks for label in block.labels} & {
        label for block in b.blocks for label in block.labels
    }


def test_other_architectures_are_named(build_file: Build) -> None:
    path = build_file("\t.globl f\nf:\n\tret\n", target="x86_64-linux-gnu.2.17")

    with pytest.raises(MavcgError, match=r"k\.o: holds code for X86_64"):
        CodeFile(path)


def test_a_stripped_file_has_no_names(build_file: Build) -> None:
    path = build_file(function("ret").replace(".globl", ".hidden"), shared=True, strip=True)

    with pytest.raises(MavcgError, match="stripped"):
        CodeFile(path)


def test_a_library_without_full_symbols_still_has_its_exports(build_file: Build) -> None:
    path = build_file(function(*LOOP), shared=True, strip=True)

    assert "fmla" in CodeFile(path).disassemble(["f"]).text


def test_damaged_files_are_errors_at_every_cut(build_file: Build, tmp_path: Path) -> None:
    content = build_file(function(*LOOP), shared=True).read_bytes()
    pick = random.Random(7)
    refused = 0
    for number in range(60):
        damaged = bytearray(content)
        if number % 2:
            damaged = damaged[: pick.randrange(5, len(content))]
        else:
            for _ in range(8):
                damaged[pick.randrange(16, 64) if number % 4 else pick.randrange(len(content))] = pick.randrange(256)
        path = tmp_path / "d.so"
        path.write_bytes(damaged)
        try:
            code = CodeFile(path)
            code.disassemble(list(code.symbols))
        except MavcgError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ")
    assert refused > 20
