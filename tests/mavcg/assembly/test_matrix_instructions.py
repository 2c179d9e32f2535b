"""Instructions of i8mm and bf16, computed for the emulator, against qemu-aarch64; and functions that use them."""

import random
import struct
import subprocess
from pathlib import Path

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import End, run, start_state
from mavcg.assembly.matrix_instructions import result_of
from mavcg.toolchain.zig import zig_program
from tests.machine import QEMU, needs_qemu

INSTRUCTIONS = (
    "smmla v0.4s, v1.16b, v2.16b",
    "ummla v0.4s, v1.16b, v2.16b",
    "usmmla v0.4s, v1.16b, v2.16b",
    "usdot v0.4s, v1.16b, v2.16b",
    "usdot v0.2s, v1.8b, v2.8b",
    "usdot v0.4s, v1.16b, v2.4b[3]",
    "sudot v0.4s, v1.16b, v2.4b[1]",
    "sudot v0.2s, v1.8b, v2.4b[2]",
    "bfdot v0.4s, v1.8h, v2.8h",
    "bfdot v0.2s, v1.4h, v2.4h",
    "bfdot v0.4s, v1.8h, v2.2h[3]",
    "bfmmla v0.4s, v1.8h, v2.8h",
)
# A library of one function for each instruction: f(state), which holds v0, v1 and v2; and a program that runs them all.
MAIN = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
%s
int main(void) {
    static unsigned char state[48];
    void (*const run[])(void *) = {%s};
    for (unsigned i = 0; read(0, state, 48) == 48; i++) {
        run[i %% (sizeof run / sizeof *run)](state);
        write(1, state, 16);
    }
    return 0;
}
"""


def assembly(name: str, instruction: str) -> str:
    load, store = "ldp q0, q1, [x0]\n\tldr q2, [x0, #32]", "str q0, [x0]"
    return f"\t.globl {name}\n\t.type {name},%function\n{name}:\n\t{load}\n\t{instruction}\n\t{store}\n\tret\n"


def operands(pick: random.Random) -> bytes:
    """v0, v1 and v2: any bits, ordinary numbers, or bfloat16 values at the ends of the range."""
    kind = pick.randrange(3)
    if kind == 0:
        return pick.randbytes(48)
    if kind == 1:
        return struct.pack("<12f", *(pick.uniform(-4, 4) for _ in range(12)))
    ends = (0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC1, 0x0040, 0x2000)
    return struct.pack("<24H", *(pick.choice(ends) for _ in range(24)))


@needs_qemu
def test_every_instruction_against_qemu(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(len(INSTRUCTIONS))]
    text = "".join(assembly(name, instruction) for name, instruction in zip(names, INSTRUCTIONS, strict=True))
    (tmp_path / "f.s").write_text(f"\t.arch armv8.6-a+i8mm+bf16\n\t.text\n{text}")
    declared = "\n".join(f"void {name}(void *);" for name in names)
    (tmp_path / "main.c").write_text(MAIN % (declared, ", ".join(names)))
    link = [zig_program(), "cc", "-target", "aarch64-linux-musl", "-static", "-O1", "main.c", "f.s", "-o", "app"]
    subprocess.run(link, cwd=tmp_path, check=True)
    pick = random.Random(1)
    states = [operands(pick) for _ in range(100 * len(INSTRUCTIONS))]
    done = subprocess.run(
        [str(QEMU), "-cpu", "max", "./app"], cwd=tmp_path, input=b"".join(states), capture_output=True, check=True
    )

    assert len(done.stdout) == 16 * len(states)
    image = assemble_image(f"\t.text\n{text}", "matrix")
    for number, state in enumerate(states):
        v = [int.from_bytes(state[at : at + 16], "little") for at in (0, 16, 32)] + [0] * 29
        at = image.symbols[names[number % len(names)]] + 8
        [section] = [s for s in image.sections if s.executable]
        word = int.from_bytes(section.data[at - section.address : at - section.address + 4], "little")
        expected = int.from_bytes(done.stdout[16 * number : 16 * number + 16], "little")
        assert result_of(word, v) == (0, expected), (INSTRUCTIONS[number % len(names)], state.hex())


def test_a_function_that_uses_them_returns_in_the_emulator() -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    image = assemble_image("\t.text\n" + assembly("f", "smmla v0.4s, v1.16b, v2.16b"), "matrix")
    state = start_state(3)
    done = run(image, "f", state)

    assert done.end == End.RETURNED and len(done.written) == 16
    unknown = assemble_image("\t.text\n" + assembly("f", "bfcvtn v0.4h, v1.4s"), "matrix")
    assert run(unknown, "f", state).end == End.FAULT
