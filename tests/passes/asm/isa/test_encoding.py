"""Offsets of loads and stores: what is accepted assembles, what is refused does not (but for ld1, which has none)."""

import subprocess
import sys
from pathlib import Path

import pytest

from mavcg.passes.asm.isa.encoding import at_offset, reaches
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import Instr, Mem, Reg, parse_instr

FORMS = """
ldr q0, [x1]
ldr d0, [x1]
ldr s0, [x1]
ldr h0, [x1]
ldr b0, [x1]
ldr x0, [x1]
ldr w0, [x1]
ldrb w0, [x1]
ldrh w0, [x1]
ldrsh x0, [x1]
ldrsw x0, [x1]
ldur q0, [x1, #-3]
ldurb w0, [x1, #3]
ldursw x0, [x1, #3]
str q0, [x1]
str w0, [x1]
strb w0, [x1]
stur d0, [x1, #-8]
sturh w0, [x1, #-1]
ldp q0, q1, [x1]
ldp d0, d1, [x1]
ldp s0, s1, [x1]
ldp x0, x2, [x1]
ldp w0, w2, [x1]
ldpsw x0, x2, [x1]
ldnp q0, q1, [x1]
stp q0, q1, [x1]
stp w0, w2, [x1]
prfm pldl1keep, [x1]
ld1 { v0.4s }, [x1]
ld1r { v0.4s }, [x1]
st1 { v0.4s, v1.4s }, [x1]
""".strip().splitlines()
EDGES = sorted(
    {0, 1, 2, 3, 4, 8, 16}
    | {sign * edge + near for sign in (1, -1) for edge in (64, 128, 256, 512, 1024) for near in (-16, -8, -4, -1, 0, 1)}
    | {4096 * size + near for size in (1, 2, 4, 8, 16) for near in (-16, -8, -4, -2, -1, 0)}
)


def _moved(text: str, offset: int) -> Instr | None:
    instr = parse_instr(text)
    effect = effects(instr)
    assert effect is not None and effect.memory is not None
    return at_offset(instr, Mem(Reg("x1", "x"), offset), effect.memory.bytes)


def _assembles(lines: list[str], folder: Path) -> list[bool]:
    """Return, per line, True if it assembles, by the assembler's messages."""
    source = folder / "offsets.s"
    source.write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        "aarch64-linux-gnu",
        "-c",
        str(source),
        "-ferror-limit=0",
        "-o",
        str(folder / "offsets.o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    wrong = {int(line.split("offsets.s:")[1].split(":")[0]) for line in done.stderr.splitlines() if ": error:" in line}
    assert done.returncode == 0 or wrong, done.stderr
    return [number not in wrong for number in range(1, len(lines) + 1)]


def test_what_is_accepted_assembles_and_what_is_refused_does_not(tmp_path: Path) -> None:
    cases = [(form, offset, _moved(form, offset)) for form in FORMS for offset in EDGES]
    accepted = [str(moved) for _, _, moved in cases if moved is not None]
    assert all(_assembles(accepted, tmp_path))
    refused = [f"{form.split('[')[0]}[x1, #{offset}]" for form, offset, moved in cases if moved is None]
    refused = [line.replace("ldur", "ldr", 1).replace("stur", "str", 1) for line in refused]
    assert not any(_assembles(refused, tmp_path))
    assert len(accepted) > 300 and len(refused) > 300


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_first_offset_out_of_reach(size: int) -> None:
    assert reaches(-256, size) and not reaches(-257, size)
    assert reaches(4095 * size, size) and not reaches(4096 * size, size)
    assert reaches(255, size) and (size == 1) == reaches(257, size)


def test_only_plain_addresses_are_taken() -> None:
    load = parse_instr("ldr q0, [x1]")
    base = Reg("x1", "x")
    assert at_offset(load, Mem(base, 16, mode="post"), 16) is None
    assert at_offset(load, Mem(base, 16, mode="pre"), 16) is None
    assert at_offset(load, Mem(base, index=Reg("x2", "x")), 16) is None
    assert at_offset(load, Mem(base, None, ":lo12:table"), 16) is None


def test_the_unscaled_form_becomes_the_one_that_reaches() -> None:
    assert str(_moved("ldur q0, [x1, #-16]", 32)) == "ldr\tq0, [x1, #32]"
    assert _moved("ldr q0, [x1]", 257) is None
