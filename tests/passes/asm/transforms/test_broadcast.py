"""Broadcasts as loads of one element: when, and what stays."""

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.equivalence import compare
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.transforms.broadcast import multiply_by_element


def transformed(text: str, *live_out: str) -> list[str]:
    instrs = [parse_instr(line) for line in text.strip().splitlines()]
    return [" ".join(str(instr).split()) for instr in multiply_by_element(instrs, frozenset(live_out))]


def test_every_reader_multiplies() -> None:
    """The text of the module's docstring, two readers, and another value of the register behind them."""
    assert transformed(
        """
        ld1r { v30.4s }, [x12]
        fmla v23.4s, v26.4s, v30.4s
        fmls v22.4s, v25.4s, v30.4s
        fmul v21.4s, v25.4s, v30.4s
        ldr q30, [x1]
        fadd v1.4s, v30.4s, v30.4s
    """,
        "v1",
        "v30",
    ) == [
        "ldr s30, [x12]",
        "fmla v23.4s, v26.4s, v30.s[0]",
        "fmls v22.4s, v25.4s, v30.s[0]",
        "fmul v21.4s, v25.4s, v30.s[0]",
        "ldr q30, [x1]",
        "fadd v1.4s, v30.4s, v30.4s",
    ]


@pytest.mark.parametrize(
    ("lines", "live_out"),
    [
        ("ld1r { v30.4s }, [x12]\nfmla v23.4s, v26.4s, v30.4s\nfadd v1.4s, v1.4s, v30.4s", ""),  # another reader
        ("ld1r { v30.4s }, [x12]\nfmla v23.4s, v30.4s, v26.4s", ""),  # the other factor: NaNs would differ
        ("ld1r { v30.4s }, [x12]\nfmla v30.4s, v26.4s, v30.4s", ""),  # it is also what is added to
        ("ld1r { v30.4s }, [x12]\nfmul v23.4s, v30.4s, v30.4s", ""),
        ("ld1r { v30.4s }, [x12]\nfmla v23.4s, v26.4s, v30.4s", "v30"),  # live later
        ("ld1r { v30.4s }, [x12]\nadd x0, x0, #1", ""),  # nobody reads it
        ("ld1r { v30.4s }, [x12], #4\nfmla v23.4s, v26.4s, v30.4s", ""),  # it also moves the pointer
        ("ld1r { v30.8h }, [x12]\nmla v23.8h, v26.8h, v30.8h", ""),  # integers, and elements that v30 has no names for
        ("ld1r { v30.4s }, [x12]\nfmla v23.2s, v26.2s, v30.2s", ""),  # half of it
        ("ld1r { v30.4s }, [x12]\nins v30.s[1], w1\nfmla v23.4s, v26.4s, v30.4s", ""),  # changed in between
        ("ld2r { v30.4s, v31.4s }, [x12]\nfmla v23.4s, v26.4s, v30.4s", ""),
    ],
)
def test_what_stays(lines: str, live_out: str) -> None:
    as_read = [" ".join(str(parse_instr(line)).split()) for line in lines.splitlines()]
    assert transformed(lines, *live_out.split()) == as_read


@pytest.mark.parametrize(
    ("load", "new"),
    [
        ("ld1r { v30.4s }, [x12], #4", "ldr s30, [x12] | add x12, x12, #4"),
        ("ld1r { v30.4s }, [x12], x13", "ldr s30, [x12] | add x12, x12, x13"),
        ("ld1r { v30.4s }, [sp], x13", "ldr s30, [sp] | add sp, sp, x13"),
        ("ld1r { v30.4s }, [x12]", "ldr s30, [x12]"),
    ],
)
def test_a_pointer_that_moves(load: str, new: str) -> None:
    instrs = [parse_instr(line) for line in (load, "fmla v23.4s, v26.4s, v30.4s")]
    divided = multiply_by_element(instrs, frozenset(), post_indexed=True)
    assert " | ".join(" ".join(str(i).split()) for i in divided) == f"{new} | fmla v23.4s, v26.4s, v30.s[0]"


@pytest.mark.parametrize("arrangement", ["4s", "2s", "2d"])
def test_the_same_bits(arrangement: str) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    lines = [f"ld1r {{ v30.{arrangement} }}, [x0]"]
    for number, name in enumerate(("fmla", "fmls", "fmul")):
        lines.append(f"{name} v{number}.{arrangement}, v{number + 3}.{arrangement}, v30.{arrangement}")
    after = transformed("\n".join(lines))
    assert after != lines and len(after) == len(lines)

    def function(body: list[str]) -> str:
        text = "\n".join(f"\t{line}" for line in [*body, *(f"str q{n}, [x1, #{16 * n}]" for n in range(3)), "ret"])
        return f"\t.globl\tf\n\t.type\tf,@function\nf:\n{text}\n\t.size\tf, .-f\n"

    assert compare(assemble_image(function(lines)), assemble_image(function(after)), "f", range(20)).passed
