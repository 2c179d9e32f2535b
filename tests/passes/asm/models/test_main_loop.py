"""The hottest loop of a function by an estimate, and its work in a cycle."""

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.models.main_loop import main_loop


def _function(*loops: str, name: str = "f") -> str:
    blocks = ""
    for n, loop in enumerate(loops):
        lines = [*loop.split("|"), "subs x0, x0, #1", f"b.ne .L{name}{n}"]
        blocks += f".L{name}{n}:\n" + "".join(f"\t{line.strip()}\n" for line in lines)
    return f"\t.text\n\t.type {name},@function\n{name}:\n{blocks}\tret\n\t.size {name}, .-{name}\n"


FOUR = " | ".join(f"fmla v{i}.4s, v30.4s, v31.s[{i}]" for i in range(4))
ONE = "fmla v0.4s, v30.4s, v31.s[0]"
DOT = "sdot v4.4s, v5.16b, v6.4b[0] | sdot v7.4s, v5.16b, v6.4b[0]"


def test_the_loop_with_most_arithmetic_is_taken_wherever_it_stands(a55: Timing) -> None:
    for loops in ((ONE, FOUR), (FOUR, ONE), (ONE, FOUR, ONE)):
        figure = main_loop(_function(*loops), "f", a55)
        assert figure is not None
        assert (figure.work, figure.unit, figure.cycles) == (32, "FLOP", 4.0)
        assert figure.per_cycle == 8.0


def test_integer_work_is_counted_as_such(a55: Timing) -> None:
    figure = main_loop(_function(ONE, DOT), "f", a55)
    assert figure is not None and (figure.work, figure.unit) == (64, "OP")


def test_only_the_named_function_counts(a55: Timing) -> None:
    text = _function(ONE) + _function(FOUR, name="g")
    one, other = main_loop(text, "f", a55), main_loop(text, "g", a55)
    assert one is not None and other is not None and (one.work, other.work) == (8, 32)
    assert main_loop(text, "h", a55) is None


@pytest.mark.parametrize("body", ["add x1, x1, #1", "ldr q0, [x1]", "nop"])
def test_loops_without_arithmetic_have_no_figure(body: str, a55: Timing) -> None:
    assert main_loop(_function(body), "f", a55) is None


def test_straight_line_code_is_no_loop(a55: Timing) -> None:
    assert main_loop(f"\t.text\n\t.type f,@function\nf:\n\t{ONE}\n\tret\n", "f", a55) is None


def test_a_loop_that_the_model_cannot_time_is_passed_over_and_reported(a55: Timing) -> None:
    figure = main_loop(_function(ONE, "fdiv v0.4s, v1.4s, v2.4s | " * 3 + FOUR), "f", a55)
    assert figure is not None and figure.work == 8 and not figure.is_hottest


def test_a_loop_with_an_unknown_instruction_is_passed_over(a55: Timing) -> None:
    figure = main_loop(_function(ONE, FOUR + " | frobnicate x1, x2"), "f", a55)
    assert figure is not None and figure.work == 8 and not figure.is_hottest


def test_an_inner_loop_counts_although_the_code_around_it_is_larger(a55: Timing) -> None:
    """A pipelined loop: prologue and epilogue are blocks of the loop around, and hold more than a pass."""
    text = _function(FOUR).replace(".Lf0:", f".Lo:\n\t{FOUR.replace(' | ', chr(10))}\n\t{ONE}\n.Lf0:")
    text = text.replace("\tret\n", "\tsubs x9, x9, #1\n\tb.ne .Lo\n\tret\n")
    figure = main_loop(text, "f", a55)
    assert figure is not None and (figure.work, figure.is_hottest) == (32, True)
