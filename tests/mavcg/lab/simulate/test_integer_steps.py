"""Registers that the trace plugin follows through a block, against an emulator that runs the same instructions."""

import ctypes
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.lab.simulate.process_emulator import PLUGIN
from mavcg.toolchain.zig import run_zig

WRAPPER = """
#include "integer_steps.h"
void follow(integers *r, const uint32_t *words, int count) { for (int n = 0; n < count; n++) follow_step(r, words[n]); }
"""
CODE, DATA, SIZE = 0x10000, 0x200000, 0x100000
POINTERS = (20, 21, 22)  # what memory is accessed by; they move by constants alone
ALIGNED = 23  # what atomics access memory by
SHIFTS = ("lsl", "lsr", "asr")


class Integers(ctypes.Structure):
    """The structure of integer_steps.h."""

    _fields_ = (("value", ctypes.c_uint64 * 32), ("known", ctypes.c_uint32))


@pytest.fixture(scope="module")
def follow(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Integers, bytes], None]:
    folder = tmp_path_factory.mktemp("steps")
    (folder / "steps.c").write_text(WRAPPER)
    library = folder / "steps.so"
    words = ["-O1", "-shared", "-fPIC", f"-I{PLUGIN}", str(folder / "steps.c"), "-o", str(library)]
    run_zig("cc", words, "building")
    function = ctypes.CDLL(str(Path(library))).follow

    def run(state: Integers, code: bytes) -> None:
        function(ctypes.byref(state), code, len(code) // 4)

    return run


def arithmetic(pick: random.Random) -> str:
    """An instruction of those that integer_steps.h follows."""
    kind = pick.choice("xw")
    size = 64 if kind == "x" else 32

    def reg() -> str:
        n = pick.randrange(14)
        return f"{kind}zr" if n == 13 else f"{kind}{n}"

    d, n, m, a = reg(), reg(), reg(), reg()
    low = pick.randrange(size)
    plain = f"{kind}{pick.randrange(13)}"
    extend = pick.choice(("uxtb", "uxth", "uxtw", "sxtb", "sxth", "sxtw"))
    narrow = [f"w{pick.randrange(13)}" for _ in range(2)]
    product = f"{pick.choice(('smaddl', 'umaddl', 'smsubl', 'umsubl'))} x{pick.randrange(13)}, {', '.join(narrow)}"
    return pick.choice(
        [
            f"{pick.choice(('add', 'sub'))} {plain}, {plain}, #{pick.randrange(4096)}, lsl #{pick.choice((0, 12))}",
            f"{pick.choice(('adds', 'subs'))} {d}, {plain}, #{pick.randrange(4096)}",
            f"{pick.choice(('add', 'sub', 'adds', 'subs'))} {d}, {n}, {m}, {pick.choice(SHIFTS)} #{low}",
            f"{pick.choice(('add', 'sub'))} {plain}, {plain}, w{pick.randrange(13)}, {extend} #{pick.randrange(5)}",
            f"{pick.choice(('and', 'orr', 'eor', 'bic', 'orn', 'eon'))} {d}, {n}, {m}, "
            f"{pick.choice((*SHIFTS, 'ror'))} #{low}",
            f"{pick.choice(('madd', 'msub'))} {d}, {n}, {m}, {a}",
            f"{product}, x{pick.randrange(13)}",
            f"{pick.choice(('movz', 'movn', 'movk'))} {d}, #{pick.randrange(65536)}, lsl #{pick.choice((0, 16))}",
            f"{pick.choice(('ubfx', 'sbfx', 'ubfiz', 'sbfiz'))} {d}, {n}, #{low}, #{pick.randrange(1, size - low + 1)}",
            f"{pick.choice(SHIFTS)} {d}, {n}, #{low}",
            f"mov {d}, {n}",
        ]
    )


def other(pick: random.Random) -> str:
    """An instruction whose result is not followed, or that moves an address register, or none of these."""
    d, n, p = f"x{pick.randrange(13)}", f"x{pick.randrange(13)}", f"x{pick.choice(POINTERS)}"
    m = pick.randrange(1, 8)
    return pick.choice(
        [
            f"ldr {d}, [{p}], #{8 * m}",
            f"ldr {d}, [{p}, #{8 * m}]!",
            f"ldrsw {d}, [{p}, #{4 * m}]",
            f"ldp {d}, x{12 + m}, [{p}], #{16 * m}",
            f"stp {d}, {n}, [{p}, #-{16 * m}]!",
            f"str q{m}, [{p}], #-{16 * m}",
            f"ldp s{m}, s8, [{p}], #{4 * m}",
            f"ldp q{m}, q8, [{p}, #{16 * m}]!",
            f"ld1 {{v0.4s, v1.4s, v2.4s}}, [{p}], #48",
            f"ld4 {{v0.8b, v1.8b, v2.8b, v3.8b}}, [{p}], #32",
            f"st2 {{v0.h, v1.h}}[{m}], [{p}], #4",
            f"ld1 {{v0.d}}[1], [{p}], #8",
            f"ld3r {{v0.4s, v1.4s, v2.4s}}, [{p}], #12",
            f"st1 {{v0.16b}}, [{p}]",
            f"ldadd {d}, {n}, [x{ALIGNED}]",
            f"ldxr {d}, [x{ALIGNED}]",
            f"umov w{m}, v0.s[1]",
            f"smov x{m}, v0.h[2]",
            f"fcvtzs x{m}, d3",
            f"fmla v{m}.4s, v1.4s, v2.s[0]",
            f"csel {d}, {n}, {d}, hs",
            f"and {d}, {n}, #0xff0",
            f"smulh {d}, {n}, {d}",
            f"sdiv {d}, {n}, {d}",
            f"bfi {d}, {n}, #{m}, #{m}",
            f"clz {d}, {n}",
            f"extr {d}, {n}, {d}, #{m}",
            f"adr {d}, .",
            "add sp, sp, #64",
            "sub sp, sp, #32",
            "nop",
        ]
    )


@pytest.mark.parametrize("share_of_others, least_known", [(0.0, 13), (0.25, 1)])
def test_known_registers_have_the_values_of_an_emulator(
    follow: Callable[[Integers, bytes], None], share_of_others: float, least_known: int
) -> None:
    unicorn = pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    arm = unicorn.arm64_const
    names = [getattr(arm, f"UC_ARM64_REG_X{n}") for n in range(31)] + [arm.UC_ARM64_REG_SP]
    pick = random.Random(7)
    lines = [[(other if pick.random() < share_of_others else arithmetic)(pick) for _ in range(12)] for _ in range(120)]
    text = "\t.arch armv8.2-a\n\t.text\nf:\n" + "".join(f"\t{line}\n" for block in lines for line in block)
    code = bytes(assemble_image(text).sections[0].data)
    for number, block in enumerate(lines):
        words = code[48 * number : 48 * number + 48]
        begin = [pick.choice((pick.getrandbits(64), pick.getrandbits(6))) for _ in range(32)]
        for pointer in (*POINTERS, ALIGNED, 31):
            begin[pointer] = DATA + SIZE // 2 + 4096 * (pointer % 8)
        state = Integers((ctypes.c_uint64 * 32)(*begin), 0xFFFFFFFF)
        follow(state, words)
        found = after(unicorn, names, begin, words)
        known = [n for n in range(32) if state.known >> n & 1]
        assert {n: state.value[n] for n in known} == {n: found[n] for n in known}, block
        assert len([n for n in known if n < 13]) >= least_known and {*POINTERS, ALIGNED, 31} <= set(known), block


def after(unicorn: object, names: list[int], begin: list[int], words: bytes) -> list[int]:
    """The registers after a block, as unicorn has them."""
    machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)  # type: ignore[attr-defined]
    machine.ctl_set_cpu_model(unicorn.arm64_const.UC_CPU_ARM64_MAX)  # type: ignore[attr-defined]
    machine.mem_map(CODE, 0x1000)
    machine.mem_map(DATA, SIZE)
    machine.mem_write(CODE, words)
    machine.mem_write(DATA, struct.pack("<Q", 0x8123456789ABCDEF) * (SIZE // 8))
    for name, value in zip(names, begin, strict=True):
        machine.reg_write(name, value)
    machine.emu_start(CODE, CODE + len(words))
    return [int(machine.reg_read(name)) for name in names]
