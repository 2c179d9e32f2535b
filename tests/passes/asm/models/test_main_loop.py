"""The hottest loop of a function by an estimate, and its work in a cycle."""

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.models.main_loop import ARITHMETIC, INSTRUCTIONS, MEMORY, LoopFigure, function_rates, main_loop
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


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


def rate(text: str, timing: Timing, kind: str) -> LoopFigure | None:
    rates = function_rates(text, "f", timing)
    assert rates is not None
    return rates.figures.get(kind)


@pytest.mark.parametrize(
    ("body", "moved", "instructions"),
    [
        ("ldr x1, [x1]", 8, 3),  # a chain of pointers
        ("ldr w3, [x1], #4 | add w4, w4, w3 | str w4, [x2], #4", 8, 5),  # a prefix sum
        ("ldrb w3, [x1], #1 | eor w3, w3, w4 | and x3, x3, #0xff | ldr w3, [x2, x3, lsl #2] | eor w4, w3, w4", 5, 7),
        ("ldr w3, [x1], #4 | udiv w3, w3, w5 | str w3, [x2], #4 | ldr x9, [sp, #8]", 8, 6),  # sp: not the program's
        ("add x1, x1, x2 | eor x2, x2, x1", None, 4),
    ],
)
def test_loops_of_integers_are_priced_by_what_they_move_or_execute(
    body: str, moved: int | None, instructions: int
) -> None:
    for core in ("cortex-a55", "cortex-a75", "exynos-m4"):
        timing = load_timing(load_core(core))
        memory, steps = (rate(_function(body), timing, kind) for kind in (MEMORY, INSTRUCTIONS))
        assert rate(_function(body), timing, ARITHMETIC) is None
        assert (memory.work if memory else None) == moved and (memory is None or memory.unit == "byte")
        assert steps is not None and (steps.work, steps.unit) == (instructions, "instruction")
        assert steps.is_hottest and steps.is_loop and steps.cycles >= instructions / timing.width


def test_a_function_without_loops_is_its_largest_block(a55: Timing) -> None:
    text = f"\t.text\n\t.type f,@function\nf:\n\t{FOUR.replace(' | ', chr(10))}\n\tret\n"
    figure = rate(text, a55, ARITHMETIC)
    assert figure is not None and (figure.work, figure.is_loop) == (32, False)
    rates = function_rates(text, "f", a55)
    assert rates is not None and rates.loop_cycles == 0.0


def test_a_loop_that_calls_a_function_has_no_figure(a55: Timing) -> None:
    rates = function_rates(_function(FOUR + " | bl expf"), "f", a55)
    assert rates is not None and not rates.figures


def test_cycles_in_loops_are_iterations_times_the_assumed_trips(a55: Timing) -> None:
    rates = function_rates(_function(FOUR), "f", a55)
    assert rates is not None and rates.loop_cycles == 8 * 4.0


def test_a_loop_in_registers_inside_of_one_that_loads_is_the_main_one(a55: Timing) -> None:
    text = _function("udiv w3, w1, w2 | msub w3, w3, w2, w1")
    text = text.replace(".Lf0:", ".Lo:\n\tldr w1, [x5], #4\n.Lf0:")
    text = text.replace("\tret\n", "\tsubs x9, x9, #1\n\tb.ne .Lo\n\tret\n")
    assert rate(text, a55, MEMORY) is None
    figure = rate(text, a55, INSTRUCTIONS)
    assert figure is not None and figure.work == 4
