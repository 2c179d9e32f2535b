"""Orders of a split loop in IR, and what its record says of forms and of orders."""

import random

from bench import records
from bench.ir_split import products_before_last_load, random_order
from bench.machine_passes import main_loop_of
from bench.records import RESULTS
from mavcg.toolchain.codegen import canonical

IR = """\
define <4 x float> @f(ptr %0, ptr %1) {
  br label %3

3:                                                ; preds = %3, %2
  %4 = phi ptr [ %0, %2 ], [ %10, %3 ]
  %5 = phi <4 x float> [ zeroinitializer, %2 ], [ %9, %3 ]
  %6 = load <4 x float>, ptr %4, align 4
  %7 = call <4 x float> @llvm.fma.v4f32(<4 x float> %6, <4 x float> %6, <4 x float> %5)
  %8 = load <4 x float>, ptr %1, align 4
  %9 = call <4 x float> @llvm.fma.v4f32(<4 x float> %8, <4 x float> %8, <4 x float> %7)
  %10 = getelementptr i8, ptr %4, i64 16
  %11 = icmp eq ptr %10, %1
  br i1 %11, label %12, label %3

12:                                               ; preds = %3
  ret <4 x float> %9
}

declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
"""
# As docs/design/machine-passes.md has it: "seven of seventeen loops there are slower than before".
SLOWER, LOOPS = 7, 17
ASM = "f:\n.L1:\n\tldr q0, [x0], #16\n\tfmla v1.4s, v0.4s, v0.4s\n\tldr q2, [x1]\n\tfmla v1.4s, v2.4s, v2.4s\n"


def test_random_orders_are_valid_and_differ() -> None:
    made = [random_order(canonical(IR), random.Random(seed)) for seed in range(40)]

    # LLVM refuses a value that is used before it is computed.
    assert len({canonical(text) for text, _ in made}) >= 2
    assert {part for _, part in made} == {0.0, 0.5}
    assert all(sorted(text.split("\n")) == sorted(made[0][0].split("\n")) for text, _ in made)


def test_products_before_the_last_load() -> None:
    loop = main_loop_of(f"\t.text\n\t.type f,@function\n{ASM}\tsubs x2, x2, #1\n\tb.ne .L1\n\tret\n", "f")

    assert products_before_last_load(loop) == 0.5


def test_the_page_says_what_the_record_says() -> None:
    table = next(records.read(RESULTS / "ir_split.json").tables)
    *kernels, speed = table.rows
    loops = [[float(cycles) for cycles in cell.split(", ")] for row in kernels for cell in row[1:] if cell]
    at = {core: table.head.index(core) for core in ("cortex-a53", "cortex-a55")}
    means = [round(100 * float(speed[at[core]].split(", ")[form]) - 100) for form in (1, 2) for core in at]

    slower = sum(ir > none for none, ir, *_ in loops)
    assert (means, slower, len(loops)) == ([2, 4, 52, 63], SLOWER, LOOPS)
