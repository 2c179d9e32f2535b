"""Which extensions an instruction of x86-64 needs: against the SDM, clang's intrinsics, and binutils' assembler.

LLVM's assembler takes every instruction of x86-64, whatever the CPU. What knows better: clang's headers, whose
functions name in an attribute what their instructions need, and GNU's assembler, which refuses what `.arch` does not
allow.
"""

import random
import re
import subprocess
from collections.abc import Set
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.objects.code_extensions import code_extensions, function_extensions
from mavcg.objects.x86_extensions import TABLES, instructions, table_rows, x86_extensions
from mavcg.runtime.needs import cpuid_bits
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig, zig_program

TARGET = parse_target("x86_64-linux-gnu")
HEADERS = Path(zig_program()).parent / "lib/include"

# AT&T syntax | what the SDM's page of the instruction names as "CPUID Feature Flag", in LLVM's names. A VEX instruction
# with vectors also needs what saves their upper halves (avx), an EVEX instruction avx512f: SDM 1, 14.3 and 15.2.
FORMS = """
addps %xmm0, %xmm1 |
movq (%rax), %mm0 |
lock cmpxchgq %rcx, (%rdx) |
endbr64 |
pause |
prefetchw (%rax) |
nopw %cs:0x100(%rax,%rax) |
movabsq $0x1122334455667788, %r10 |
imulw $0x1234, (%rax), %cx |
testl $0x11223344, 8(%rsp) |
testb $1, (%r13) |
movabsb 0x1122334455667788, %al |
enter $16, $0 |
pushw $0x1234 |
fildl (%rax) |
fisttpl (%rax) | sse3
lddqu (%rax), %xmm1 | sse3
movddup %xmm0, %xmm1 | sse3
pshufb %xmm0, %xmm1 | ssse3
palignr $3, %mm0, %mm1 | ssse3
pmulld %xmm0, %xmm1 | sse4.1
roundss $1, %xmm0, %xmm1 | sse4.1
crc32w (%rax), %ecx | sse4.2
pcmpgtq %xmm0, %xmm1 | sse4.2
pcmpestri $4, %xmm0, %xmm1 | sse4.2
extrq $1, $2, %xmm3 | sse4a
insertq $1, $2, %xmm3, %xmm4 | sse4a
movntsd %xmm0, (%rax) | sse4a
popcntw %ax, %cx | popcnt
lzcntq (%rax), %rcx | lzcnt
tzcntl %eax, %ecx | bmi
andnq %rax, %rcx, %rdx | bmi
blsrl %eax, %ecx | bmi
bextrq %rax, (%rcx), %rdx | bmi
mulxq %rax, %rcx, %rdx | bmi2
rorxl $3, (%rax), %ecx | bmi2
shlxq %rax, (%rcx), %rdx | bmi2
pdepq %rax, %rcx, %rdx | bmi2
bzhil %eax, %ecx, %edx | bmi2
adcxq %rax, %rcx | adx
adoxl (%rax), %ecx | adx
movbew (%rax), %cx | movbe
cmpxchg16b (%rax) | cx16
lahf | sahf
aesenc %xmm0, %xmm1 | aes
pclmulqdq $1, %xmm0, %xmm1 | pclmul
sha256rnds2 %xmm0, %xmm1, %xmm2 | sha
sha1rnds4 $1, %xmm1, %xmm2 | sha
gf2p8mulb %xmm0, %xmm1 | gfni
rdrandq %rax | rdrnd
rdseedl %eax | rdseed
rdfsbaseq %rax | fsgsbase
rdpid %rax | rdpid
xgetbv | xsave
xbegin 1f; 1: xend | rtm
xabort $3 | rtm
clflushopt (%rax) | clflushopt
clwb (%rax) | clwb
tpause %eax | waitpkg
movdiri %rax, (%rcx) | movdiri
movdir64b (%rax), %rcx | movdir64b
serialize | serialize
vaddps %ymm0, %ymm1, %ymm2 | avx
vpaddd %xmm0, %xmm1, %xmm2 | avx
vpaddd %ymm0, %ymm1, %ymm2 | avx avx2
vzeroupper | avx
vbroadcastss (%rax), %ymm1 | avx
vbroadcastss %xmm0, %ymm1 | avx avx2
vpgatherdd %xmm0, (%rax,%xmm1), %xmm2 | avx avx2
vpermq $1, (%rax), %ymm2 | avx avx2
vcvtph2ps %xmm0, %ymm1 | avx f16c
vfmadd231pd (%rax), %ymm1, %ymm2 | avx fma
vfmaddps %xmm0, %xmm1, %xmm2, %xmm3 | avx fma4
vpcmov %xmm0, %xmm1, %xmm2, %xmm3 | avx xop
blcfill %eax, %ecx | tbm
vaesenc %xmm0, %xmm1, %xmm2 | avx aes
vaesenc %ymm0, %ymm1, %ymm2 | avx vaes
vpclmulqdq $1, %ymm0, %ymm1, %ymm2 | avx vpclmulqdq
{vex} vpdpbusd %ymm0, %ymm1, %ymm2 | avx avxvnni
{vex} vpmadd52luq %ymm0, %ymm1, %ymm2 | avx avxifma
vpdpbssd %ymm0, %ymm1, %ymm2 | avx avxvnniint8
vpdpwsud %ymm0, %ymm1, %ymm2 | avx avxvnniint16
vbcstnebf162ps (%rax), %ymm1 | avx avxneconvert
vsha512msg1 %xmm0, %ymm1 | avx sha512
vsm3msg1 %xmm0, %xmm1, %xmm2 | avx sm3
vsm4key4 %ymm0, %ymm1, %ymm2 | avx sm4
cmpoxadd %rax, %rcx, (%rdx) | cmpccxadd
tdpbssd %tmm0, %tmm1, %tmm2 | amx-int8
tdpbf16ps %tmm0, %tmm1, %tmm2 | amx-bf16
tileloadd (%rax,%rcx), %tmm2 | amx-tile
vaddps %zmm0, %zmm1, %zmm2 | avx512f
vaddps %ymm16, %ymm1, %ymm2 | avx512f avx512vl
vaddps {rn-sae}, %zmm0, %zmm1, %zmm2 | avx512f
vaddss %xmm16, %xmm1, %xmm2 | avx512f
vmovd %eax, %xmm16 | avx512f
vpaddb %zmm0, %zmm1, %zmm2 | avx512f avx512bw
vpaddb %xmm16, %xmm1, %xmm2 | avx512f avx512bw avx512vl
vpmullq %zmm0, %zmm1, %zmm2 | avx512f avx512dq
vinsertf32x8 $1, %ymm0, %zmm1, %zmm2 | avx512f avx512dq
vinsertf64x4 $1, %ymm0, %zmm1, %zmm2 | avx512f
vpconflictd %zmm0, %zmm1 | avx512f avx512cd
kmovw %eax, %k1 | avx512f
kmovb %eax, %k1 | avx512f avx512dq
kmovq %rax, %k1 | avx512f avx512bw
kaddw %k1, %k2, %k3 | avx512f avx512dq
kandw %k1, %k2, %k3 | avx512f
vpermb %zmm0, %zmm1, %zmm2 | avx512f avx512vbmi
vpshldw $1, %zmm0, %zmm1, %zmm2 | avx512f avx512vbmi2
vpmadd52luq %zmm0, %zmm1, %zmm2 | avx512f avx512ifma
vpdpbusd %zmm0, %zmm1, %zmm2 | avx512f avx512vnni
{evex} vpdpbusd %ymm0, %ymm1, %ymm2 | avx512f avx512vl avx512vnni
vpopcntb %zmm0, %zmm1 | avx512f avx512bitalg
vpopcntd %zmm0, %zmm1 | avx512f avx512vpopcntdq
vp2intersectd %zmm0, %zmm1, %k2 | avx512f avx512vp2intersect
vdpbf16ps %zmm0, %zmm1, %zmm2 | avx512f avx512bf16
vaddph %zmm0, %zmm1, %zmm2 | avx512f avx512fp16
vfmadd231ph %ymm0, %ymm1, %ymm2 | avx512f avx512fp16 avx512vl
vgf2p8mulb %zmm0, %zmm1, %zmm2 | avx512f gfni
vaesenc %zmm0, %zmm1, %zmm2 | avx512f vaes
""".strip().splitlines()
# In tables, but with no bit that the selector reads.
WITHOUT_BITS = {"xsaveopt", "xsavec", "xsaves", "clzero", "rdpru", "ptwrite"}
WITHOUT_BITS |= {"avxvnniint8", "avxvnniint16", "avxneconvert", "amx-complex"}


def test_every_form_needs_what_the_manual_says(tmp_path: Path) -> None:
    """As LLVM encodes it; and where LLVM ends it, its size ends."""
    lines, wanted = zip(*(line.split("|") for line in FORMS), strict=True)
    out = tmp_path / "forms.o"
    functions = (f".type f{n},@function\nf{n}: {line}\n.size f{n},.-f{n}\n" for n, line in enumerate(lines))
    assemble("\t.text\n" + "".join(functions), out, TARGET, "instructions")

    found = function_extensions(out)
    wrong = {line: found[f"f{n}"] for n, line in enumerate(lines) if found[f"f{n}"] != frozenset(wanted[n].split())}
    assert wrong == {} and code_extensions(out) == frozenset().union(*(names.split() for names in wanted))
    assert {name for text in wanted for name in text.split()} > set(cpuid_bits()) - {
        # Instructions of the system, and names that a test of clang's headers covers.
        *("enqcmd", "hreset", "lwp", "mwaitx", "pku", "raoint", "shstk", "tsxldtrk", "uintr", "amx-fp16"),
    }


SOME_HEADERS = "smm avx avx2 f16c fma bmi bmi2 lzcnt avxvnni sha adx".split()
NEWER = ("avx10", "movrs", "kl", "usermsr", "amx-", "shstk")  # not in the tables, in whole or in part


@pytest.mark.parametrize("headers", [SOME_HEADERS, pytest.param(["imm", "x86"], marks=pytest.mark.long)])
def test_code_of_clangs_intrinsics_needs_no_more_than_their_attributes(tmp_path: Path, headers: list[str]) -> None:
    """Every intrinsic that is a function, compiled with the extensions that its attribute in clang's header names."""
    alone = "#define __IMMINTRIN_H\n#define __X86INTRIN_H\n" if headers is SOME_HEADERS else ""
    (tmp_path / "all.c").write_text(alone + "".join(f"#include <{name}intrin.h>\n" for name in headers))
    clang = ["-target", "x86_64-linux-gnu", "-ffreestanding", "-nostdinc", "-isystem", str(HEADERS), "-O1"]
    as_functions = "-D__always_inline__=__used__"
    run_zig("clang", [*clang, as_functions, "-S", "-emit-llvm", "all.c", "-o", "all.ll"], "to IR", tmp_path)
    text = (tmp_path / "all.ll").read_text()
    # Without AVX-512VL, LLVM 22 has no code for minima of halves.
    (tmp_path / "all.ll").write_text(text.replace("+avx512fp16", "+avx512fp16,+avx512vl"))
    run_zig("clang", [*clang, "-c", "all.ll", "-o", "all.o"], "to code", tmp_path)
    features = dict(re.findall(r'^attributes #(\d+) = .*"target-features"="([^"]*)"', text, re.MULTILINE))
    attributes = dict(re.findall(r"^define .*?@([\w.]+)\(.*#(\d+)", text, re.MULTILINE))

    found = function_extensions(tmp_path / "all.o")
    for name, needs in found.items():
        allowed = {entry[1:] for entry in features[attributes[name]].split(",") if entry[0] == "+"}
        allowed |= {"sse4.2"} if "crc32" in allowed else set()  # LLVM has its own name for one of the instructions
        allowed |= {"avx512vl"} if "avx512fp16" in allowed else set()
        if needs is None:
            assert any(feature.startswith(NEWER) for feature in allowed), name
        else:
            # `rep bsf` is what clang's __tzcnt functions are without BMI1.
            assert needs <= allowed or (needs == {"bmi"} and re.search("tzcnt|bsf", name)), name
    assert len(found) == (862 if headers is SOME_HEADERS else 5372)


GNU_NAMES = {name: f"avx512_{name[6:]}" for name in "avx512vpopcntdq avx512vbmi2 avx512vnni avx512bitalg".split()}
GNU_NAMES |= {name: f"avx512_{name[6:]}" for name in ("avx512bf16", "avx512fp16", "avx512vp2intersect")}
GNU_NAMES |= {name: f"avx_{name[3:]}" for name in ("avxvnni", "avxifma")} | {"raoint": "rao_int"}
GNU_NAMES |= {"avxneconvert": "avx_ne_convert", "avxvnniint8": "avx_vnni_int8"}
# What binutils 2.40 does not know, or knows without a name.
NOT_GNU = {"avxvnniint16", "sha512", "sm3", "sm4", "amx-complex", "sahf", "pku"}


# Of the system, or of x87 with SSE3, or written as another instruction (pextrw of SSE2), or without a vector's length.
SYSTEM_INSTRUCTIONS = set(
    "vmread vmwrite vmclear vmxon vmptrld vmptrst invept invvpid invpcid wbnoinvd clrssbsy getsec pconfig"
    " prefetch prefetchwt1 cldemote fisttps fisttpl fisttpll pextrw vfpclassps vfpclasspd vfpclassph".split()
)


def gnu_assembler() -> bool:
    """True if binutils is installed and knows the instructions of 2022."""
    try:
        version = subprocess.run(["as", "--version"], capture_output=True, text=True, check=True).stdout
        subprocess.run(["objdump", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return "GNU" in version and tuple(map(int, re.findall(r"(\d+)\.(\d+)", version)[0])) >= (2, 40)


def random_instruction(chance: random.Random, encoding: str) -> bytes:
    """An instruction with an opcode of the tables, and any operands."""
    table, prefix, opcode = chance.choice(
        [key for key in table_rows(encoding) if key[0] < 8 and (encoding, *key[::2]) != ("legacy", 1, 1)]
    )
    row = chance.choice(table_rows(encoding)[table, prefix, opcode])
    wide = chance.getrandbits(1) if row.wide is None else row.wide
    length, operands = chance.randrange(3), chance.choice([15, 15, chance.randrange(16)])
    modrm = chance.choice([bytes([0xC0 | chance.randrange(64)]), bytes([0x44 | chance.randrange(8) << 3, 0x24, 8])])
    tail = bytes([opcode]) + modrm + bytes([chance.randrange(4)])
    pp = ("np", "66", "f3", "f2").index(prefix)
    if encoding == "vex":
        return bytes([0xC4, 0xE0 | table, wide << 7 | operands << 3 | (length & 1) << 2 | pp]) + tail
    if encoding == "evex":
        mask = chance.choice([0, 0, 1, 3])
        return bytes([0x62, 0xF0 | table, wide << 7 | operands << 3 | 4 | pp, length << 5 | 8 | mask]) + tail
    before = (b"", b"\x66", b"\xf3", b"\xf2")[pp] + (b"\x48" if wide else b"")
    return before + (b"", b"\x0f", b"\x0f\x38", b"\x0f\x3a")[table] + tail + bytes(3)


def refused(lines: list[tuple[str, Set[str]]], folder: Path) -> dict[int, str]:
    """Number of a line, each with the extensions that may be used -> why GNU's assembler refuses it."""
    text = ""
    for line, extensions in lines:
        names = (GNU_NAMES.get(name, name.replace("amx-", "amx_")) for name in sorted(extensions - NOT_GNU))
        text += ".arch generic64;" + "".join(f" .arch .{name};" for name in names) + f" {line}\n"
    (folder / "lines.s").write_text(text)
    errors = subprocess.run(["as", "lines.s", "-o", "lines.o"], cwd=folder, capture_output=True, text=True).stderr
    assert "no such architecture" not in errors
    return {int(number) - 1: why for number, why in re.findall(r"s:(\d+): Error: (.*)", errors)}


@pytest.mark.long
@pytest.mark.skipif(not gnu_assembler(), reason="needs as and objdump of binutils 2.40 or later")
@pytest.mark.parametrize("encoding", ["vex", "evex", "legacy"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 5))])
def test_random_instructions_need_what_gnus_assembler_says(tmp_path: Path, seed: int, encoding: str) -> None:
    """All that is found is enough for an instruction, and nothing is left without which it is refused."""
    chance = random.Random(f"{seed} {encoding}")
    words = [random_instruction(chance, encoding) for _ in range(3000 if seed == 1 else 9000)]
    code = b"".join(word.ljust(32, b"\x90") for word in words)
    (tmp_path / "words.bin").write_bytes(code)
    show = ["objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64", "--insn-width=16", "words.bin"]
    shown = subprocess.run(show, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    at = {
        int(n, 16): (len(b.split()), t) for n, b, t in re.findall(r"^ *([0-9a-f]+):\t([0-9a-f ]+)\t(.*)$", shown, re.M)
    }
    lines: list[tuple[str, Set[str]]] = []
    for number in range(len(words)):
        size, text = at[32 * number]
        text = re.sub(r" +#.*|<.*", "", text)
        if re.search(r"bad|^(data16|rep|rex|lock|bnd|.s |xacquire|xrelease)", text) or not text:
            continue
        found = next(instructions(code[32 * number : 32 * number + 32]))
        assert found is not None and found.size == size, (text, words[number].hex())
        if text.split()[0] in SYSTEM_INSTRUCTIONS:
            continue
        needs = x86_extensions(code[32 * number : 32 * number + size])
        if needs is None or needs & NOT_GNU:
            assert needs or found.jump is not None
            continue
        mark = "" if encoding == "legacy" or text[0] == "k" else f"{{{encoding}}} "
        lines.append((mark + text.replace("{vex}", "").replace("{evex}", ""), needs))

    unsupported = [lines[n] for n, why in refused(lines, tmp_path).items() if "not supported on" in why]
    assert len(lines) > 300 and unsupported == []
    fewer = [(line, needs - {name}, name) for line, needs in lines for name in needs]
    accepted = set(range(len(fewer))) - refused([(line, needs) for line, needs, _ in fewer], tmp_path).keys()
    # GNU's `.avx512vl` includes `.avx512f`, and `.fma` includes `.avx`.
    odd = [fewer[n] for n in accepted if not (fewer[n][2] in ("avx", "avx512f") and fewer[n][1])]
    assert odd == []


def test_every_extension_has_a_bit_of_cpuid() -> None:
    """Against clang's cpuid.h, which names the bits of each register; ECX of leaf 7 has OSPKE for `pku`."""
    text = (HEADERS / "cpuid.h").read_text()
    parts = re.split(r"/\* Features in %(\w+) for leaf (\w+)(?: sub-leaf (\d))? \*/", text)
    registers = {("ecx", "1", None): 0, ("ebx", "7", "0"): 1, ("ecx", "7", "0"): 2, ("edx", "7", "0"): 3}
    registers |= {("eax", "7", "1"): 4, ("ecx", "0x80000001", None): 5}
    theirs: dict[str, set[tuple[int, int]]] = {}
    for register, leaf, subleaf, own in zip(parts[1::4], parts[2::4], parts[3::4], parts[4::4], strict=True):
        for name, bit in re.findall(r"#define bit_(\w+) +(0x\w+)", own):
            if (register, leaf, subleaf) in registers:
                word = registers[register, leaf, subleaf]
                theirs.setdefault(name.lower(), set()).add((word, int(bit, 16).bit_length() - 1))
    names = {
        "sse4.1": "sse41",
        "sse4.2": "sse42",
        "cx16": "cmpxchg16b",
        "pku": "ospke",
        "sahf": "lahf_lm",
        "pclmul": "pclmulqdq",
        "lzcnt": "abm",
        "aes": "aesni",
    }
    registers_saved = {"avx": {1, 2}, "avx512f": {5, 6, 7}, "amx-tile": {17, 18}}  # XCR0: SDM 1, 13.3

    for name, bits in cpuid_bits().items():
        saved = {bit for word, bit in bits if word == 6}
        assert saved == registers_saved.get(name, set()), name
        own = {(word, bit) for word, bit in bits if word != 6 and (name, bit) != ("xsave", 27)}
        if name not in ("fma4", "tbm", "mwaitx"):  # which cpuid.h does not have
            assert own == theirs[names.get(name, name.replace("-", ""))], name
    named = {
        name for encoding in TABLES for rows in table_rows(encoding).values() for r in rows for name in r.short | r.long
    }
    assert named - set(cpuid_bits()) == WITHOUT_BITS


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("62 f4 fc 18 01 c8", "APX: three operands"),
        ("d5 10 89 c0", "APX: REX2"),
        ("62 f5 7d 48 58 c1", "AVX10.2: vaddbf16"),
        ("f3 0f 38 d8 0f", "Key Locker"),
        ("06", "not in 64-bit mode"),
        ("48 48 90 c3", "a second REX"),
        ("66 c5 f8 58 c1", "a prefix before VEX"),
        ("c5 f8 58", "an end within an instruction"),
        ("eb 01 f0 48 0f b1 0a c3", "a jump behind the lock prefix"),
        ("66 e9 00 00 00 00", "a jump that Intel and AMD read as of different sizes"),
    ],
)
def test_what_is_not_understood(code: str, why: str) -> None:
    assert x86_extensions(bytes.fromhex(code)) is None, why


def test_jumps_to_instructions_and_out_of_the_function() -> None:
    assert x86_extensions(bytes.fromhex("eb 02 66 90 74 fc e8 00 00 00 00 0f 85 00 10 00 00 c3")) == frozenset()
    assert x86_extensions(b"") == frozenset()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(code: bytes) -> None:
    """Instructions follow one another without gaps, and none is longer than 15 bytes."""
    read = list(instructions(code))
    at = 0
    for instruction in read:
        if instruction is None:
            assert instruction is read[-1] and x86_extensions(code) is None
            return
        assert instruction.at == at and 0 < instruction.size <= 15
        at += instruction.size
    assert at == len(code)


def test_a_function_without_a_size_is_not_understood(tmp_path: Path) -> None:
    text = "\t.text\n.type f,@function\nf:\tret\n.type g,@function\ng:\tpopcntl %eax, %eax\n\tret\n.size g,.-g\n"
    assemble(text, tmp_path / "two.o", TARGET, "two functions")

    assert function_extensions(tmp_path / "two.o") == {"f": None, "g": {"popcnt"}}
    assert code_extensions(tmp_path / "two.o") == frozenset({"popcnt"})


def test_code_of_a_mach_o_object(tmp_path: Path) -> None:
    macos = parse_target("x86_64-macos")
    assemble("\t.text\n_f:\tvaddps %ymm0, %ymm1, %ymm2\n\tcall _g\n\tret\n", tmp_path / "f.o", macos, "a function")

    assert code_extensions(tmp_path / "f.o") == frozenset({"avx"})
