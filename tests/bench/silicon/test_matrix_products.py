"""Matrix products that the emulator lacks: against sums over plain integers, and in a call that branches by one."""

import random
from pathlib import Path

import capstone
import pytest

from bench.silicon.dynamic_path import executed, ops_of
from bench.silicon.matrix_products import matrix_product
from mavcg.assembly.code_image import CodeImage, read_image
from mavcg.toolchain.zig import run_zig

INSTRUCTIONS = (
    "usdot v3.4s, v4.16b, v31.16b",
    "usdot v3.2s, v4.8b, v31.8b",
    "usdot v3.4s, v4.16b, v31.4b[2]",
    "usdot v3.2s, v4.8b, v31.4b[1]",
    "sudot v3.4s, v4.16b, v31.4b[3]",
    "sudot v3.2s, v4.8b, v31.4b[0]",
    "smmla v3.4s, v4.16b, v31.16b",
    "ummla v3.4s, v4.16b, v31.16b",
    "usmmla v3.4s, v4.16b, v31.16b",
)


def assembled(folder: Path, text: str) -> CodeImage:
    source, out = folder / "made.s", folder / "made.o"
    source.write_text(
        f".arch armv8.6-a+i8mm\n.global made\n.type made, %function\nmade:\n{text}\nret\n.size made, .-made\n"
    )
    run_zig("cc", ["-target", "aarch64-linux-gnu.2.17", "-c", str(source), "-o", str(out)], "assembling")
    return read_image(out, "made.s")


def expected(text: str, registers: dict[int, bytes]) -> bytes:
    """Compute the instruction from its text, sum by sum."""
    name, operands = text.split(" ", 1)
    left_signed, right_signed = {"usdot": (0, 1), "sudot": (1, 0), "smmla": (1, 1), "ummla": (0, 0), "usmmla": (0, 1)}[
        name
    ]

    def numbers(number: int, signed: int) -> list[int]:
        return [byte - 256 if signed and byte > 127 else byte for byte in registers[number]]

    left, right = numbers(4, left_signed), numbers(31, right_signed)
    sums = [int.from_bytes(registers[3][4 * n : 4 * n + 4], "little") for n in range(4)]
    for n in range(4):
        if name.endswith("mmla"):
            pairs = [(left[n // 2 * 8 + k], right[n % 2 * 8 + k]) for k in range(8)]
        else:
            group = int(operands[-2]) if operands.endswith("]") else n
            pairs = [(left[4 * n + k], right[4 * group + k]) for k in range(4)]
        sums[n] += sum(a * b for a, b in pairs)
    whole = b"".join((value % 2**32).to_bytes(4, "little") for value in sums)
    return whole[:8] + bytes(8) if ".2s" in operands else whole


def test_results_are_those_of_plain_sums(tmp_path: Path) -> None:
    image = assembled(tmp_path, "\n".join(INSTRUCTIONS))
    (section,) = [section for section in image.sections if section.executable and section.data]
    words = [int.from_bytes(section.data[4 * n : 4 * n + 4], "little") for n in range(len(INSTRUCTIONS) + 1)]
    draw = random.Random(5)
    for word, text in zip(words, INSTRUCTIONS, strict=False):
        registers = {number: draw.randbytes(16) for number in (3, 4, 31)}
        product = matrix_product(word, lambda number: int.from_bytes(registers[number], "little"))  # noqa: B023
        assert product is not None and product[0] == 3
        assert product[1].to_bytes(16, "little") == expected(text, registers), text
    assert matrix_product(words[-1], lambda number: 0) is None


@pytest.mark.parametrize("word", range(0x0E80_0000, 0x0E80_FC01, 0x400))
def test_neighbours_in_the_encoding_are_left_alone(word: int) -> None:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    for bits in (word, word | 0x4000_0000, word | 0x6000_0000, word | 0x0100_0000, word | 0x4100_0000):
        decoded = next(decoder.disasm_lite(bits.to_bytes(4, "little"), 0, 1), None)
        is_product = decoded is not None and decoded[2] in ("usdot", "sudot", "smmla", "ummla", "usmmla")
        assert (matrix_product(bits, lambda number: 0) is not None) == is_product


def test_a_call_goes_on_after_a_product_and_branches_by_its_result(tmp_path: Path) -> None:
    """Two bytes of 1 by two of 3: the sum is 6, and the loop runs so many times."""
    text = """
        movi v0.4s, #0
        movi v1.8b, #1
        movi v2.8b, #3
        mov  w2, #0xffff
        fmov s3, w2
        and  v1.8b, v1.8b, v3.8b
        ldr  q5, 2f
        usdot v0.2s, v1.8b, v2.8b
        umov w0, v0.s[0]
    1:  subs w0, w0, #1
        b.ne 1b
        b 3f
        .balign 16
    2:  .quad 1, 2
    3:  nop
    """
    image = assembled(tmp_path, text)
    steps = executed(image, "made", "i:0", 100)
    names = [op.text.split()[0] for op in ops_of(image, steps)]
    assert names.count("subs") == 6 and names.count("usdot") == 1
    assert names.index("usdot") == 7 and names[6] == "ldr"
