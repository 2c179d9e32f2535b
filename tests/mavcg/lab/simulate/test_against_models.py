"""The simulator against the analytic models, on loops whose accesses all hit in level 1."""

import random

import pytest

from mavcg.passes.asm.models.estimate import loop_cycles
from mavcg.passes.asm.models.in_order import steady_cycles
from mavcg.passes.asm.models.ports import port_bounds
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.mavcg.lab.simulate.loops import cycles_per_iteration, ideal_program, loop_image, ops_of

FORMS = """
fmla v{a}.4s, v{b}.4s, v{c}.4s
fmla v{a}.4s, v{b}.4s, v{c}.s[1]
fadd v{a}.4s, v{b}.4s, v{c}.4s
fmul v{a}.2s, v{b}.2s, v{c}.2s
smlal v{a}.4s, v{b}.4h, v{c}.4h
sdot v{a}.4s, v{b}.16b, v{c}.16b
zip1 v{a}.4s, v{b}.4s, v{c}.4s
shl v{a}.4s, v{b}.4s, #3
umov w{x}, v{a}.s[1]
ins v{a}.d[1], x{x}
fcmp s{a}, s{b}
add x{x}, x{y}, x{z}
add x{x}, x{y}, x{z}, lsl #2
madd x{x}, x{y}, x{z}, x{x}
mul w{x}, w{y}, w{z}
csel x{x}, x{y}, x{z}, eq
sdiv x{x}, x{y}, x{z}
ldr q{a}, [x1, #{o}]
ldr d{a}, [x1, #{o}]
ldr x{x}, [x1, #{o}]
ldp q{a}, q{d}, [x1, #{o}]
ld1 {{v{a}.4s, v{d}.4s}}, [x1]
""".strip().splitlines()
STORES = ("str q{a}, [x1, #{o}]", "str x{x}, [x1, #{o}]", "stp q{a}, q{d}, [x1, #{o}]")


def random_bodies(seed: int, count: int, forms: list[str]) -> list[list[str]]:
    pick = random.Random(seed)
    bodies = []
    for _ in range(count):
        body = []
        for _ in range(pick.randrange(1, 20)):
            a = pick.randrange(31)
            x, y, z = (pick.randrange(2, 18) for _ in range(3))
            numbers = dict(a=a, d=a + 1, b=pick.randrange(32), c=pick.randrange(32), x=x, y=y, z=z)
            body.append(pick.choice(forms).format(**numbers, o=16 * pick.randrange(16)))
        bodies.append(body)
    return bodies


@pytest.mark.sample(2)
@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a510", "cortex-a520"])
def test_in_order_loops_take_exactly_what_the_in_order_model_says(core: str) -> None:
    timing = load_timing(load_core(core))
    bodies = random_bodies(1, 12, [*FORMS, *STORES])
    program = ideal_program(loop_image(bodies), core)
    for number, body in enumerate(bodies):
        # A steady state may take several iterations: the two calls end at any of them.
        assert cycles_per_iteration(program, f"f{number}") == pytest.approx(
            float(steady_cycles(ops_of(body), timing)), abs=0.03
        ), body


# Sums that reach the next accumulation only, and multiplications that nothing follows in their cycles.
MULTIPLIES = {
    "one chain": ("smlal v0.4s, v1.4h, v2.4h",) * 3,
    "chain with other ops between": ("smlal v0.4s, v1.4h, v2.4h", "add v8.4s, v9.4s, v10.4s"),
    "two chains": ("smlal v0.4s, v1.4h, v2.4h", "smlal v3.4s, v1.4h, v2.4h"),
    "two chains of two classes": ("smlal v0.4s, v1.4h, v2.4h", "mla v3.4s, v1.4s, v2.4s"),
    "one that begins anew": ("mul v0.8h, v1.8h, v2.8h", "mla v0.8h, v1.8h, v2.8h", "mla v0.8h, v4.8h, v5.8h"),
    "halves": ("mul v0.4h, v1.4h, v2.4h", "mul v3.4h, v1.4h, v2.4h", "mla v0.4h, v1.4h, v2.4h"),
    "the high half": ("umulh x3, x4, x5", "add x6, x7, x8", "add x9, x10, x11"),
    "a limb": ("add x9, x10, x11", "mul x3, x4, x5", "umulh x12, x4, x5", "adds x6, x3, x7", "adc x8, x12, xzr"),
    "a multiply-add": ("madd x3, x4, x5, x6", "add x9, x10, x11"),
    "a store of what was just added": ("add x3, x4, x5", "str x3, [x1]"),
    "a pair load and others": ("ldp x3, x4, [x1]", "add x5, x6, x7", "add x8, x9, x10", "add x11, x12, x13"),
    "pair loads and a store": (
        "ldp x3, x4, [x1]",
        "ldp x5, x6, [x1]",
        "adds x7, x3, x5",
        "adc x8, x4, x6",
        "stp x7, x8, [x1]",
    ),
}


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a55", "cortex-a510"])
def test_multiplications_in_order_take_what_the_in_order_model_says(core: str) -> None:
    timing = load_timing(load_core(core))
    program = ideal_program(loop_image([*MULTIPLIES.values()]), core)
    for number, (name, body) in enumerate(MULTIPLIES.items()):
        expected = float(steady_cycles(ops_of(body), timing))
        assert cycles_per_iteration(program, f"f{number}") == pytest.approx(expected, abs=0.03), name


@pytest.mark.sample(2)
@pytest.mark.parametrize("core", ["cortex-a72", "cortex-a76", "exynos-m4", "neoverse-v1", "apple-firestorm"])
def test_out_of_order_loops_take_at_least_the_port_bound_and_mostly_no_more(core: str) -> None:
    """The bound knows no window and the best unit for each operation; stores to what is loaded are in neither."""
    timing = load_timing(load_core(core))
    bodies = random_bodies(2, 16, FORMS)
    program = ideal_program(loop_image(bodies), core)
    ratios = []
    for number, body in enumerate(bodies):
        bound = float(port_bounds(ops_of(body), timing).largest.cycles)
        ratios.append(cycles_per_iteration(program, f"f{number}") / bound)
        assert ratios[-1] >= 0.99, body
    assert sorted(ratios)[len(ratios) // 2] <= 1.02 and max(ratios) <= 1.5, ratios


@pytest.mark.parametrize(("core", "cycles"), [("cortex-x3", 31 / 6), ("cortex-a55", 29), ("cortex-a78", 14)])
def test_zeroing_moves_take_the_units_that_the_analytic_model_says(core: str, cycles: float) -> None:
    body = [f"movi v{n}.4s, #0" for n in range(28)]
    assert loop_cycles(ops_of(body), load_timing(load_core(core))) == pytest.approx(cycles)
    assert cycles_per_iteration(ideal_program(loop_image([body]), core), "f0") == pytest.approx(cycles, abs=0.05)
