"""Which extension an instruction needs, against LLVM's assembler, which says "instruction requires: lse"."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import capstone
import pytest

from mavcg.hardware.extensions import HWCAP_BITS, INVISIBLE, hwcap_words
from mavcg.objects.code_extensions import _ROWS, BASE, a64_extensions, code_extensions, function_extensions
from mavcg.profiles.load import load_cores
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import zig_program
from tests.mavcg.objects.assembler import assembler_errors

TARGET = parse_target("aarch64-linux-gnu")
# What LLVM's assembler calls it, where code generation has another name.
RENAMED = {"fcma": "complxnum", "frint3264": "fptoint", "memtag": "mte"}

# No instruction shows which part of SVE it is of: with "sve", all that the compiler may use is needed.
SVE_PARTS = {"sve2", "sve-bitperm"}

# Every form of every extension that a shipped core has, or a few of each where there are many.
FORMS = """
ldadd x0, x1, [x2]
stclrlb w0, [x1]
ldsmaxah w0, w1, [x2]
swpal w0, w1, [x2]
casal x0, x1, [x2]
casb w0, w1, [x2]
caspl x0, x1, x2, x3, [x4]
ldapr x0, [x1]
ldaprb w0, [x1]
ldapur x0, [x1, #8]
stlurh w0, [x1, #-3]
ldapursw x0, [x1]
sdot v0.4s, v1.16b, v2.16b
udot v0.2s, v1.8b, v2.8b
sdot v0.4s, v1.16b, v2.4b[3]
fadd v0.8h, v1.8h, v2.8h
fadd h0, h1, h2
fmadd h0, h1, h2, h3
fcmp h0, #0.0
fccmp h0, h1, #0, eq
fcsel h0, h1, h2, ne
fcvtzs w0, h1
scvtf h0, x1
scvtf h0, w1, #3
fmov h0, w0
fmov h0, #1.0
fmov v0.8h, #1.0
frintn v0.4h, v1.4h
fmaxnmv h0, v1.8h
faddp h0, v1.2h
fmaxp h0, v1.2h
fmla v0.8h, v1.8h, v2.h[7]
fmulx h0, h1, v2.h[1]
fcvtzu v0.8h, v1.8h, #5
fcvtzs h0, h1, #5
frecpx h0, h1
fabd h0, h1, h2
fmlal v0.4s, v1.4h, v2.4h
fmlsl2 v0.2s, v1.2h, v2.h[1]
sqrdmlah v0.4s, v1.4s, v2.4s
sqrdmlsh h0, h1, v2.h[3]
sqrdmlah s0, s1, s2
sqrdmlsh v0.8h, v1.8h, v2.h[2]
crc32b w0, w1, w2
crc32cx w0, w1, x2
aese v0.16b, v1.16b
aesimc v0.16b, v1.16b
pmull v0.1q, v1.1d, v2.1d
pmull2 v0.1q, v1.2d, v2.2d
sha1h s0, s1
sha1su1 v0.4s, v1.4s
sha1c q0, s1, v2.4s
sha256h q0, q1, v2.4s
sha256su1 v0.4s, v1.4s, v2.4s
sha512h q0, q1, v2.2d
sha512su0 v0.2d, v1.2d
eor3 v0.16b, v1.16b, v2.16b, v3.16b
bcax v0.16b, v1.16b, v2.16b, v3.16b
rax1 v0.2d, v1.2d, v2.2d
xar v0.2d, v1.2d, v2.2d, #3
sm3partw1 v0.4s, v1.4s, v2.4s
sm3ss1 v0.4s, v1.4s, v2.4s, v3.4s
sm3tt2b v0.4s, v1.4s, v2.s[1]
sm4e v0.4s, v1.4s
sm4ekey v0.4s, v1.4s, v2.4s
fjcvtzs w0, d0
fcadd v0.4s, v1.4s, v2.4s, #90
fcmla v0.2d, v1.2d, v2.2d, #180
fcmla v0.4s, v1.4s, v2.s[1], #270
fcmla v0.8h, v1.8h, v2.8h, #0
fcadd v0.4h, v1.4h, v2.4h, #270
frint32z d0, d1
frint64x s0, s1
frint32x v0.4s, v1.4s
frint64z v0.2d, v1.2d
cfinv
setf8 w0
setf16 w3
rmif x1, #3, #4
axflag
xaflag
bfdot v0.4s, v1.8h, v2.8h
bfdot v0.2s, v1.4h, v2.2h[1]
bfmmla v0.4s, v1.8h, v2.8h
bfmlalb v0.4s, v1.8h, v2.8h
bfmlalt v0.4s, v1.8h, v2.h[1]
bfcvt h0, s0
bfcvtn2 v0.8h, v1.4s
smmla v0.4s, v1.16b, v2.16b
usmmla v0.4s, v1.16b, v2.16b
usdot v0.4s, v1.16b, v2.16b
sudot v0.4s, v1.16b, v2.4b[1]
irg x0, x1
gmi x0, x1, x2
subps x0, x1, x2
addg x0, x1, #16, #1
stg x0, [x1]
st2g x0, [x1], #16
ldg x0, [x1]
stgp x0, x1, [x2, #16]
stgp x0, x1, [x2], #16
wfet x0
wfit x1
retaa
blraa x0, x1
braaz x0
paciza x0
autdb x0, x1
xpacd x0
pacga x0, x1, x2
ldraa x0, [x1]
ldrab x0, [x1, #8]!
paciasp
autia1716
bti c
dgh
fcvt s0, h1
fcvt d0, h1
fcvt h0, d1
fcvtl2 v0.4s, v1.8h
ldr h0, [x1]
fadd v0.4s, v1.4s, v2.4s
ldp q0, q1, [x0]
ldaxr x0, [x1]
casa w0, w1, [x2]
dup v0.8h, w0
pmull v0.8h, v1.8b, v2.8b
smull v0.4s, v1.4h, v2.4h
mrs x0, FPCR
sb
""".strip().splitlines()


def required(lines: Sequence[str], folder: Path) -> dict[int, frozenset[str]]:
    """Line number, from 0 -> extensions that LLVM's assembler, set to Armv8.0-A, says it requires."""
    errors = assembler_errors(lines, TARGET, folder)
    found = {}
    for number, message in errors.items():
        match = re.search(r"requires: (.*)", message)
        assert match, (lines[number], message)
        names = match[1].replace(",", "").replace(" or ", " ").split()
        found[number] = frozenset(RENAMED.get(name, name) for name in names)
    return found


def encoded(lines: Sequence[str], folder: Path) -> list[int]:
    out = folder / "words.o"
    assemble("\t.text\n" + "\n".join(lines) + "\n", out, TARGET, "instructions")
    from mavcg.objects.elf import open_elf

    data = open_elf(out).get_section_by_name(".text").data()
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def test_every_form_needs_what_llvms_assembler_says(tmp_path: Path) -> None:
    theirs = required(FORMS, tmp_path)
    ours = {n: a64_extensions([word]) for n, word in enumerate(encoded(FORMS, tmp_path))}

    # fcvtl of halves is of the base (Arm ARM C7.2.80), whatever LLVM's predicate says of its spelling.
    odd = {line for line in FORMS if line.startswith("fcvtl2")}
    wrong = {FORMS[n]: (ours[n], theirs.get(n, frozenset())) for n in ours if ours[n] != theirs.get(n, frozenset())}
    assert set(wrong) <= odd
    covered = frozenset().union(*ours.values())
    assert covered >= {name for core in load_cores("aarch64").values() for name in core.extensions} - {
        "rand",
        *INVISIBLE,
    }


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 8))])
def test_random_instructions_need_what_llvms_assembler_says(tmp_path: Path, seed: int) -> None:
    """Words near each row of the table, disassembled by capstone, and read again by LLVM."""
    chance = random.Random(seed)
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    lines: list[str] = []
    rows = [row for row in _ROWS if row[2] != "sve"]
    for mask, value, _ in rows * 12:
        word = chance.getrandbits(32) & ~mask | value
        word ^= chance.choice([0, 0, 1 << chance.randrange(32)])
        decoded = next(decoder.disasm_lite(word.to_bytes(4, "little"), 0x1000, 1), None)
        # Instructions of the system: LLVM says of their registers only that it does not know them.
        if (
            decoded
            and decoded[2] not in ("mrs", "msr", "dc", "sys", "at", "tlbi", "ic")
            and word >> 25 & 15 not in (0, 2)
        ):
            lines.append(f"\t{decoded[2]} {decoded[3]}")
    unreadable = assembler_errors(lines, TARGET, tmp_path, everything=True)
    lines = [line for number, line in enumerate(lines) if number not in unreadable]
    theirs = required(lines, tmp_path)
    set_with_tags = re.compile(r"\tsetg")  # memory tagging as well as mops: no shipped core has mops

    wrong = {
        line: (ours, theirs.get(n, frozenset()))
        for n, (line, word) in enumerate(zip(lines, encoded(lines, tmp_path), strict=True))
        if (ours := a64_extensions([word])) != theirs.get(n, frozenset()) and not set_with_tags.match(line)
    }
    assert len(lines) > 400 and wrong == {}


def test_system_registers() -> None:
    """RNDR and RNDRRS are registers of their own, which LLVM's assembler calls unknown where they are not."""
    assert a64_extensions([0xD53B2400]) == a64_extensions([0xD53B2421]) == {"rand"}
    assert a64_extensions([0xD53B4400]) == frozenset()  # mrs x0, FPCR


def test_every_extension_has_a_bit_of_the_kernels() -> None:
    named = {name for _, _, names in _ROWS for name in names.split() if names != BASE}
    used = {name for core in load_cores("aarch64").values() for name in core.extensions}

    assert named | SVE_PARTS == set(HWCAP_BITS) and used <= set(HWCAP_BITS) | set(INVISIBLE)
    assert hwcap_words(["lse", "sha2"]) == (1 << 8 | 1 << 5 | 1 << 6, 0, 0, 0)
    assert hwcap_words(["bf16", "hbc"]) == (0, 0, 1 << 14, 1 << 12)


def test_the_bits_are_the_kernels_own(tmp_path: Path) -> None:
    """Against the header that ziglang brings of Linux: arch/arm64/include/uapi/asm/hwcap.h."""
    headers = list(Path(zig_program()).parent.glob("lib/libc/include/aarch64-linux-any/asm/hwcap.h"))
    text = headers[0].read_text()
    defined = {
        name: (int(bit), bool(second))
        for second, name, bit in re.findall(r"#define HWCAP(2?)_(\w+)\s+\(1U?L* << (\d+)\)", text)
    }
    names = {
        "aes": ["AES", "PMULL"],
        "altnzcv": ["FLAGM2"],
        "bf16": ["BF16"],
        "complxnum": ["FCMA"],
        "crc": ["CRC32"],
        "cssc": ["CSSC"],
        "dotprod": ["ASIMDDP"],
        "flagm": ["FLAGM"],
        "fp16fml": ["ASIMDFHM"],
        "fptoint": ["FRINT"],
        "fullfp16": ["FPHP", "ASIMDHP"],
        "hbc": ["HBC"],
        "i8mm": ["I8MM"],
        "jsconv": ["JSCVT"],
        "lse": ["ATOMICS"],
        "mops": ["MOPS"],
        "mte": ["MTE"],
        "pauth": ["PACA", "PACG"],
        "rand": ["RNG"],
        "rcpc": ["LRCPC"],
        "rcpc-immo": ["ILRCPC"],
        "rdm": ["ASIMDRDM"],
        "sb": ["SB"],
        "sha2": ["SHA1", "SHA2"],
        "sha3": ["SHA3", "SHA512"],
        "sm4": ["SM3", "SM4"],
        "sve": ["SVE"],
        "sve-bitperm": ["SVEBITPERM"],
        "sve2": ["SVE2"],
        "wfxt": ["WFXT"],
    }
    wanted = {
        name: tuple(tuple(sorted(defined[n][0] for n in own if defined[n][1] == second)) for second in (False, True))
        for name, own in names.items()
    }
    assert wanted == HWCAP_BITS


def test_code_of_an_object_and_of_each_function(tmp_path: Path) -> None:
    """Data between functions is no code, whatever its bits are."""
    out = tmp_path / "two.o"
    text = """
\t.text
\t.type one, %function
one:
\tldadd x0, x1, [x2]
\tret
\t.size one, .-one
\t.word 0x0E809400 // would be sdot
\t.type two, %function
two:
\tret
\t.size two, .-two
"""
    assemble(text, out, TARGET, "two functions")

    assert code_extensions(out) == frozenset({"lse"})
    assert function_extensions(out) == {"one": {"lse"}, "two": frozenset()}
