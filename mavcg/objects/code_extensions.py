"""Reads which instruction set extensions the machine code of an object file needs; those of AArch64 by encoding.

Source: Arm Architecture Reference Manual, C4.1, "A64 instruction set encoding". LLVM's assembler, which names the
extension that an instruction requires, is the independent reference of the test.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from mavcg.objects import elf, macho
from mavcg.objects.elf_tables import FUNCTION, NOBITS, ElfTables
from mavcg.objects.x86_extensions import x86_extensions

BASE = ""  # Armv8.0-A with Advanced SIMD, and hints, which older processors ignore

# (mask, value, extensions): an instruction w with w & mask == value needs these. The first row that matches counts.
# "a b": both. Grouped as in C4.1; a comment names the instructions of a row where the extension's name does not.
_ROWS: tuple[tuple[int, int, str], ...] = (
    # Loads and stores
    (0x3FA07C00, 0x08A07C00, "lse"),  # cas
    (0xBFA07C00, 0x08207C00, "lse"),  # casp
    (0x3F208C00, 0x38200000, "lse"),  # ldadd, ldclr, ldeor, ldset, ldsmax, ..
    (0x3F20FC00, 0x38208000, "lse"),  # swp
    (0x3FE0FC00, 0x38A0C000, "rcpc"),  # ldapr
    (0xFF200400, 0xF8200400, "pauth"),  # ldraa, ldrab
    (0x3F200C00, 0x19000000, "rcpc-immo"),  # ldapur, stlur
    (0x3B200C00, 0x19000400, "mops"),  # cpyfp, setp, ..
    (0xFF200000, 0xD9200000, "mte"),  # stg, ldg, ..
    (0xFFC00000, 0x68800000, "mte"),  # stgp, in three forms of addresses
    (0xFFC00000, 0x69800000, "mte"),
    (0xFFC00000, 0x69000000, "mte"),
    # System instructions, branches
    (0xFFFFFFC0, 0xD53B2400, "rand"),  # mrs of RNDR, RNDRRS
    (0xFFFFFFC0, 0xD5031000, "wfxt"),
    (0xFFFFFFFF, 0xD50330FF, "sb"),
    (0xFFFFFFFF, 0xD500401F, "flagm"),  # cfinv
    (0xFFFFFFFF, 0xD500403F, "altnzcv"),  # xaflag
    (0xFFFFFFFF, 0xD500405F, "altnzcv"),  # axflag
    (0xFFFFFFE0, 0xD50B7460, "mte"),  # dc gva, dc gzva
    (0xFFFFFFE0, 0xD50B7480, "mte"),
    (0xFF000010, 0x54000010, "hbc"),  # bc.cond
    (0xFE1FF800, 0xD61F0800, "pauth"),  # braa, blraa, retaa, ..
    # Integers
    (0x7FE0E000, 0x1AC04000, "crc"),
    (0x7FE0E000, 0x1AC06000, "cssc"),  # smax, umax, smin, umin of registers
    (0x7FF00000, 0x11C00000, "cssc"),  # .. and constants
    (0x7FFFF800, 0x5AC01800, "cssc"),  # ctz, cnt
    (0x7FFFFC00, 0x5AC02000, "cssc"),  # abs
    (0xFFE0FC00, 0x9AC03000, "pauth"),  # pacga
    (0xFFFF8000, 0xDAC10000, "pauth"),  # pacia, autia, xpaci, .. of any register
    (0xFFE0FC00, 0x9AC01000, "mte"),  # irg, gmi, subp, subps, addg, subg
    (0xFFE0FC00, 0x9AC01400, "mte"),
    (0xFFE0FC00, 0x9AC00000, "mte"),
    (0xFFE0FC00, 0xBAC00000, "mte"),
    (0xBFC0C000, 0x91800000, "mte"),
    (0xFFE07C10, 0xBA000400, "flagm"),  # rmif
    (0xFFFFBC1F, 0x3A00080D, "flagm"),  # setf8, setf16
    # Cryptography
    (0xFFFFCC00, 0x4E284800, "aes"),
    (0xBFE0FC00, 0x0EE0E000, "aes"),  # pmull of 64 bits
    (0xFFE08C00, 0x5E000000, "sha2"),  # sha1c .. sha256su1
    (0xFFFFCC00, 0x5E280800, "sha2"),  # sha1h, sha1su1, sha256su0
    (0xFFE0F000, 0xCE608000, "sha3"),  # sha512h, sha512h2, sha512su1, rax1
    (0xFFFFFC00, 0xCEC08000, "sha3"),  # sha512su0
    (0xFFE08000, 0xCE000000, "sha3"),  # eor3
    (0xFFE08000, 0xCE200000, "sha3"),  # bcax
    (0xFFE00000, 0xCE800000, "sha3"),  # xar
    (0xFFE0F000, 0xCE60C000, "sm4"),  # sm3partw1, sm3partw2, sm4ekey
    (0xFFFFFC00, 0xCEC08400, "sm4"),  # sm4e
    (0xFFE08000, 0xCE400000, "sm4"),  # sm3ss1
    (0xFFE0C000, 0xCE408000, "sm4"),  # sm3tt1a .. sm3tt2b
    # Advanced SIMD: integers
    (0xBF20F400, 0x2E008400, "rdm"),
    (0xFF20F400, 0x7E008400, "rdm"),
    (0xBF00D400, 0x2F00D000, "rdm"),
    (0xFF00D400, 0x7F00D000, "rdm"),
    (0x9FE0FC00, 0x0E809400, "dotprod"),
    (0x9FC0F400, 0x0F80E000, "dotprod"),
    (0xBFE0FC00, 0x0E809C00, "i8mm"),  # usdot
    (0xBFC0F400, 0x0F80F000, "i8mm"),  # usdot, sudot by element
    (0xBFC0F400, 0x0F00F000, "i8mm"),
    (0xDFE0FC00, 0x4E80A400, "i8mm"),  # smmla, ummla
    (0xFFE0FC00, 0x4E80AC00, "i8mm"),  # usmmla
    # Advanced SIMD: bfloat16, complex numbers
    (0xBFE0FC00, 0x2E40FC00, "bf16"),  # bfdot
    (0xFFE0FC00, 0x6E40EC00, "bf16"),  # bfmmla
    (0xBFE0FC00, 0x2EC0FC00, "bf16"),  # bfmlal
    (0xBFC0F400, 0x0F40F000, "bf16"),  # bfdot, bfmlal by element
    (0xBFC0F400, 0x0FC0F000, "bf16"),
    (0xBFFFFC00, 0x0EA16800, "bf16"),  # bfcvtn
    (0xBFE0E400, 0x2E40C400, "complxnum fullfp16"),  # fcmla, fcadd of halves
    (0xBFE0EC00, 0x2E40E400, "complxnum fullfp16"),
    (0xBF20E400, 0x2E00C400, "complxnum"),
    (0xBF20EC00, 0x2E00E400, "complxnum"),
    (0xBFC09400, 0x2F401000, "complxnum fullfp16"),
    (0xBF009400, 0x2F001000, "complxnum"),
    # Advanced SIMD: half precision
    (0xBF60FC00, 0x0E20EC00, "fp16fml"),  # fmlal, fmlsl
    (0xBF60FC00, 0x2E20CC00, "fp16fml"),  # fmlal2, fmlsl2
    (0xBFC0B400, 0x0F800000, "fp16fml"),
    (0xBFC0B400, 0x2F808000, "fp16fml"),
    (0x9F60C400, 0x0E400400, "fullfp16"),  # three registers
    (0xDF60C400, 0x5E400400, "fullfp16"),
    (0x9F7E0C00, 0x0E780800, "fullfp16"),  # two registers
    (0xDF7E0C00, 0x5E780800, "fullfp16"),
    (0xBF7FFC00, 0x0E30C800, "fullfp16"),  # fmaxnmv, fminnmv, fmaxv, fminv
    (0xBF7FFC00, 0x0E30F800, "fullfp16"),
    (0xFF7FFC00, 0x5E30C800, "fullfp16"),  # fmaxnmp, fminnmp, faddp, fmaxp, fminp of a pair
    (0xFF7FFC00, 0x5E30D800, "fullfp16"),
    (0xFF7FFC00, 0x5E30F800, "fullfp16"),
    (0xBFF8FC00, 0x0F00FC00, "fullfp16"),  # fmov of a constant
    (0x9FF0FC00, 0x0F10E400, "fullfp16"),  # conversions with fraction bits
    (0x9FF0FC00, 0x0F10FC00, "fullfp16"),
    (0xDFF0FC00, 0x5F10E400, "fullfp16"),
    (0xDFF0FC00, 0x5F10FC00, "fullfp16"),
    (0xBFC0B400, 0x0F001000, "fullfp16"),  # fmla, fmls by element
    (0xFFC0B400, 0x5F001000, "fullfp16"),
    (0x9FC0F400, 0x0F009000, "fullfp16"),  # fmul, fmulx by element
    (0xDFC0F400, 0x5F009000, "fullfp16"),
    # Scalar floating point
    (0xFFFFFC00, 0x1E634000, "bf16"),  # bfcvt
    (0xFFFFFC00, 0x1E7E0000, "jsconv"),
    (0xFFBE7C00, 0x1E284000, "fptoint"),
    (0x9FBFEC00, 0x0E21E800, "fptoint"),
    (0xFFFF7C00, 0x1EE24000, BASE),  # fcvt of a half to single and double
    (0x7FE00000, 0x1EE00000, "fullfp16"),
    (0x7FE00000, 0x1EC00000, "fullfp16"),  # conversions with fraction bits
    (0xFFC00000, 0x1FC00000, "fullfp16"),  # fmadd, fmsub, fnmadd, fnmsub
    # All of SVE; which part of it, no encoding here tells apart (version_needs.py)
    (0x1E000000, 0x04000000, "sve"),
)


def a64_extensions(code: bytes | Iterable[int]) -> frozenset[str]:
    """Return LLVM's names of the extensions of Armv8.0-A that instructions need.

    code: instructions as little-endian bytes, a multiple of 4, or as numbers.
    """
    words = (word for (word,) in struct.iter_unpack("<I", code)) if isinstance(code, bytes) else code
    return frozenset().union(*map(_word_extensions, set(words)))


@cache
def _word_extensions(word: int) -> tuple[str, ...]:
    """Return what one instruction needs: of the first row that it matches."""
    return next((tuple(names.split()) for mask, value, names in _ROWS if word & mask == value), ())


_EXECUTABLE = 0x4  # SHF_EXECINSTR
_INSTRUCTIONS = 0x80000000 | 0x400  # S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS
_MAPPING = re.compile(r"\$([dx])(\.|$)")  # where data and code begin: ELF for the Arm 64-bit Architecture, 5.5


def code_extensions(path: Path) -> frozenset[str] | None:
    """Return LLVM's names of the extensions beyond Armv8.0-A or x86-64 that an object's code needs.

    None where not all of it is understood (x86_extensions.py); AArch64's always is. Raises: MavcgError for a file that
    is neither ELF nor Mach-O.
    """
    if macho.is_macho(path):
        sections = [s.data for s in macho.sections(path) if s.flags & _INSTRUCTIONS]
        arm = macho.is_arm(path)
    else:
        with elf.read_elf(path) as tables:
            arm = tables is not None and elf.ARCHITECTURES.get(tables.machine) == "aarch64"
            sections = [code for _, _, code in _code_sections(tables, arm)] if tables else []
    if arm:
        return a64_extensions(b"".join(sections))
    return _all_of([x86_extensions(code) for code in sections])


def function_extensions(path: Path) -> dict[str, frozenset[str] | None]:
    """Return function -> extensions that its code needs, for the functions that an ELF file defines; as above."""
    code = {}
    with elf.read_elf(path) as tables:
        arm = tables is not None and elf.ARCHITECTURES.get(tables.machine) == "aarch64"
        sections = {index: (at, code) for index, at, code in _code_sections(tables, arm)} if tables else {}
        for symbol in tables.symbols() if tables else ():
            if symbol.kind == FUNCTION and symbol.section in sections:
                address, of_section = sections[symbol.section]
                start = symbol.value - address
                code[symbol.name] = of_section[start : start + symbol.size]
    if arm:
        return {name: a64_extensions(own) for name, own in code.items()}
    # Of a function without a size, which text may define, nothing is known.
    return {name: x86_extensions(own) if own else None for name, own in code.items()}


def _all_of(parts: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _code_sections(tables: ElfTables, arm: bool) -> Iterator[tuple[int, int, bytes]]:
    """Yield (index, address, contents) of each executable section.

    On AArch64, where symbols mark data in code, zeros, which are no instruction, stand in its place.
    """
    marks: dict[int, list[tuple[int, bool]]] = {}
    for symbol in tables.symbols() if arm else ():
        if match := _MAPPING.match(symbol.name):
            marks.setdefault(symbol.section, []).append((symbol.value, match[1] == "d"))
    for index, section in enumerate(tables.sections):
        if section.flags & _EXECUTABLE and section.kind != NOBITS:
            code = bytearray(tables.contents(section))
            own = sorted(marks.get(index, []))
            ends = [*(start for start, _ in own[1:]), len(code)]
            for (start, is_data), end in zip(own, ends, strict=False):
                if is_data:
                    code[start:end] = bytes(end - start)
            yield index, section.address, bytes(code[: len(code) // 4 * 4] if arm else code)
