"""Several iterations in one: every form of counting, any number of iterations, by emulation; and what is refused."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, State, start_state
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.syntax import Instr, parse_instr
from mavcg.passes.asm.schedule.software_pipeline import with_target
from mavcg.passes.asm.transforms.unroll import Unrolled, unroll

# The work beside the count: loads and stores on moving pointers, before and after their step, one post-indexed.
WORK = """
ldr q16, [x1, #16]
ldr d17, [x2], #8
add x1, x1, #32
fmla v20.4s, v16.4s, v17.s[0]
ldr x10, [x1, #-8]
eor x11, x11, x10
str q20, [x3]
stp x10, x11, [x3, #16]
add x3, x3, #32
prfm pldl1keep, [x1, #64]
""".strip().splitlines()
ALL = frozenset({*(f"x{i}" for i in range(12)), *(f"v{i}" for i in range(32))})
TIMES = (2, 4)


def instrs(lines: list[str] | tuple[str, ...]) -> tuple[Instr, ...]:
    return tuple(parse_instr(line) for line in lines)


def unrolled(
    lines: list[str], times: int = 2, live_in: frozenset[str] = ALL, live_out: frozenset[str] = ALL
) -> Unrolled | None:
    return unroll(instrs(lines), times, "x17", live_in, live_out, ".Lrest", ".Lend")


def _texts(name: str, lines: list[str], new: Unrolled) -> str:
    """The loop (a function of `name`) and its new form (`name`_new)."""
    old = instrs(lines)

    def text(part: tuple[Instr, ...]) -> str:
        found = "".join(f"\t{instr}\n" for instr in part)
        return found.replace(".Lrest", f".Lrest_{name}").replace(".Lend", f".Lend_{name}")

    loop = text((*old[:-1], with_target(old[-1], f".Lold_{name}")))
    rest = text((*old[:-1], with_target(old[-1], ".Lrest")))
    kernel = text((*new.body[:-1], with_target(new.body[-1], f".Lnew_{name}")))
    return (
        f"{name}:\n.Lold_{name}:\n{loop}\tret\n{name}_new:\n{text(new.before)}.Lnew_{name}:\n{kernel}{text(new.after)}"
        f".Lrest_{name}:\n{rest}.Lend_{name}:\n\tret\n"
    )


@dataclass(frozen=True)
class Form:
    """A form of counting: `lines` with the register x8 and the end x9; with (from, to) for a number of iterations."""

    name: str
    lines: tuple[str, ...]
    step: int
    up: bool
    ends_at: int
    inexact: bool
    view: str

    def starts(self, count: int) -> Iterator[tuple[int, int]]:
        mask = (1 << 64) - 1 if self.view == "x" else (1 << 32) - 1
        for short in {0, *({1, self.step - 1} if self.inexact else ())}:
            distance = count * self.step - short
            if distance > 0:
                end = self.ends_at
                yield (end - distance if self.up else end + distance) & mask, end & mask


def _forms() -> Iterator[Form]:
    for view in "xw":
        i, end = f"{view}8", f"{view}9"
        for step in (1, 2, 3, 16):
            for how in ("ne", "hi", "gt"):
                counting = (f"subs {i}, {i}, #{step}", f"b.{how} .Lt")
                yield Form(f"subs {how}", counting, step, False, 0, how != "ne", view)
            yield Form("cbnz", (f"sub {i}, {i}, #{step}", f"cbnz {i}, .Lt"), step, False, 0, False, view)
            for up, move in ((True, "add"), (False, "sub")):
                first = ("ne", "lo", "cc", "lt") if up else ("ne", "hi", "gt")
                second = ("ne", "hi", "gt") if up else ("ne", "lo", "cc", "lt")
                for swapped, conditions in ((False, first), (True, second)):
                    for how in conditions:
                        pair = f"{end}, {i}" if swapped else f"{i}, {end}"
                        lines = (f"{move} {i}, {i}, #{step}", f"cmp {pair}", f"b.{how} .Lt")
                        for at in (1000, -5, 0) if how in ("lt", "gt") else (1000, 5 * 10**8):
                            name = f"{move}, cmp {pair}, {how}, to {at}"
                            yield Form(name, lines, step, up, at, how != "ne", view)


FORMS = tuple(_forms())


def _state(seed: int, start: int, end: int) -> State:
    state = start_state(seed)
    x = list(state.x)
    x[1:4] = [0x7_0000_0000, 0x7_1000_0000, 0x7_2000_0000]
    x[8], x[9] = start, end
    return State(tuple(x), state.v, state.nzcv, state.memory_seed, state.sp)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)], ids=["a fifth", "all"])
@pytest.mark.parametrize(("where", "step"), [("last", 1), ("first", 2), ("in the middle and read", 3), ("last", 16)])
def test_every_form_of_counting_and_any_number_of_iterations(where: str, step: int, every: int) -> None:
    texts, cases = [], []
    for number, form in enumerate([form for form in FORMS if form.step == step][::every]):
        moves, branch = list(form.lines[:-1]), form.lines[-1]
        if where == "last":
            lines = [*WORK, *moves, branch]
        elif where == "first":
            lines = [*moves, *WORK, branch]
        else:
            reads = ["add x11, x11, x8", "ldr d18, [x4, w8, uxtw #3]"]
            lines = [reads[0], *WORK[:4], *moves, *WORK[4:], *reads, branch]
        for times in TIMES if number % 3 == 0 else (2,):
            new = unrolled(lines, times)
            assert new is not None, form
            texts.append(_texts(f"f{number}_{times}", lines, new))
            cases.append((f"f{number}_{times}", form, times))
    machine = EmulatedCore(assemble_image("".join(texts)))
    for name, form, times in cases:
        for count in (1, 3, 4, 6, 9) if times == 4 else (1, 2, 3):
            for start, end in form.starts(count):
                state = _state(count, start, end)
                old, new_one = machine.run(name, state, 3000), machine.run(f"{name}_new", state, 3000)
                assert old.end == new_one.end == End.RETURNED, (form, count)
                assert old.x[:12] == new_one.x[:12] and old.v == new_one.v, (form, count, start, end)
                assert old.written == new_one.written and old.read == new_one.read, (form, count)
                assert old.x[8] != start


@pytest.mark.parametrize(
    "count", ["subs x8, x8, #4 | b.hi .Lt", "subs x8, x8, #4 | b.gt .Lt", "subs w8, w8, #4 | b.gt .Lt"]
)
def test_a_loop_that_runs_once_although_nothing_is_left(count: str) -> None:
    """Do-while loops that begin at 0 or below it."""
    lines = [*WORK, *count.split(" | ")]
    new = unrolled(lines, 4)
    assert new is not None
    machine = EmulatedCore(assemble_image(_texts("f", lines, new)))
    for start in (0, -1, -4, 3, 1) if ".gt" in count else (0, 1, 3):
        state = _state(1, start % (1 << 64), 0)
        old, after = machine.run("f", state, 3000), machine.run("f_new", state, 3000)
        assert old.end == after.end == End.RETURNED
        assert (old.x[:12], old.v, old.written) == (after.x[:12], after.v, after.written), start


REFUSED = {
    "the carry decides": "subs x8, x8, #1 | b.hs .Lt",
    "one more round": "subs x8, x8, #1 | b.ge .Lt",
    "plus": "subs x8, x8, #1 | b.pl .Lt",
    "up to and with the end": "add x8, x8, #1 | cmp x8, x9 | b.ls .Lt",
    "less or equal": "add x8, x8, #1 | cmp x8, x9 | b.le .Lt",
    "the opposite direction": "sub x8, x8, #1 | cmp x8, x9 | b.lo .Lt",
    "the opposite direction, operands swapped": "add x8, x8, #1 | cmp x9, x8 | b.lo .Lt",
    "compared before it moves": "cmp x8, x9 | add x8, x8, #1 | b.ne .Lt",
    "moves twice": "add x8, x8, #1 | add x8, x8, #1 | cmp x8, x9 | b.ne .Lt",
    "the end moves": "add x8, x8, #1 | add x9, x9, #1 | cmp x8, x9 | b.ne .Lt",
    "an end of this iteration": "add x8, x8, #1 | ldr x9, [x4] | cmp x8, x9 | b.lo .Lt",
    "nothing moves": "cmp x8, x9 | b.lo .Lt",
    "by a register": "add x8, x8, x7 | cmp x8, x9 | b.lo .Lt",
    "by a lot": "add x8, x8, #1, lsl #12 | cmp x8, x9 | b.lo .Lt",
    "by more than an immediate, unrolled": "subs x8, x8, #2048 | b.ne .Lt",
    "to another register": "subs x7, x8, #1 | b.ne .Lt",
    "32 bits of 64": "add x8, x8, #1 | cmp w8, w9 | b.lo .Lt",
    "64 bits of 32": "add w8, w8, #1 | cmp x8, x9 | b.lo .Lt",
    "an extended end": "add x8, x8, #1 | cmp x8, w9, uxtw | b.lo .Lt",
    "a shifted end": "add x8, x8, #1 | cmp x8, x9, lsl #1 | b.lo .Lt",
    "an immediate end": "add x8, x8, #1 | cmp x8, #64 | b.lo .Lt",
    "up to nothing": "add x8, x8, #1 | cbnz x8, .Lt",
    "compared with zero": "sub x8, x8, #1 | cmp x8, xzr | b.ne .Lt",
    "until it is zero": "sub x8, x8, #1 | cbz x8, .Lt",
    "a bit": "sub x8, x8, #1 | tbnz x8, #3, .Lt",
    "flags read behind the count": "subs x8, x8, #1 | cset w10, ne | b.ne .Lt",
    "a test of values": "fcmp s0, s1 | b.gt .Lt",
    "tst": "sub x8, x8, #1 | tst x8, x8 | b.ne .Lt",
    "adds": "adds x8, x8, #1 | b.ne .Lt",
    "loaded": "ldr x8, [x4] | cbnz x8, .Lt",
    "a count that an access moves": "ldr q0, [x8], #16 | cmp x8, x9 | b.ne .Lt",
    "no condition": "b .Lt",
}


@pytest.mark.parametrize("why", REFUSED)
def test_loops_whose_iterations_cannot_be_counted_stay(why: str) -> None:
    assert unrolled([*WORK, *REFUSED[why].split(" | ")]) is None


def test_flags_that_live_around_the_loop_keep_it() -> None:
    lines = [*WORK, "subs x8, x8, #1", "b.ne .Lt"]
    assert unrolled(lines) is not None
    assert unrolled(lines, live_in=ALL | {FLAGS}) is None
    assert unrolled(lines, live_out=ALL | {FLAGS}) is None


COUNT = ["subs x8, x8, #1", "b.ne .Lt"]


def test_pointers_are_moved_once_and_addresses_count_it_in() -> None:
    lines = ["ldr q0, [x1]", "add x1, x1, #16", "ldr q1, [x1, #16]", "str q0, [x3], #16", *COUNT]
    new = unrolled(lines)
    assert new is not None
    assert [" ".join(str(i).split()) for i in new.body] == [
        "ldr q0, [x1]",
        "ldr q1, [x1, #32]",
        "str q0, [x3], #16",
        "ldr q0, [x1, #16]",
        "add x1, x1, #32",
        "ldr q1, [x1, #16]",
        "str q0, [x3], #16",
        "sub x8, x8, #2",
        "subs x17, x17, #2",
        "b.hs again",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["ldr q0, [x1, #65520]", "add x1, x1, #16"],
        ["ldp q0, q1, [x1, #1008]", "add x1, x1, #32"],
        ["ldr q0, [x1, #250]", "add x1, x1, #32"],
    ],
)
def test_offsets_out_of_reach_keep_the_loop(lines: list[str]) -> None:
    assert unrolled([*lines, *COUNT]) is None


def _agree(lines: list[str], x: dict[int, int], times: int = 2) -> None:
    new = unrolled(lines, times)
    if new is None:
        return
    machine = EmulatedCore(assemble_image(_texts("f", lines, new)))
    for count in (1, 2, 3, 5):
        state = _state(3, count, 0)
        values = tuple(x.get(number, value) for number, value in enumerate(state.x))
        state = State(values, state.v, state.nzcv, state.memory_seed, state.sp)
        old, after = machine.run("f", state, 3000), machine.run("f_new", state, 3000)
        assert old.end == after.end == End.RETURNED
        assert (old.x[:12], old.v, old.written, old.read) == (after.x[:12], after.v, after.written, after.read), count


def test_a_step_of_32_bits_cuts_its_address_off() -> None:
    """`add w1` clears the upper half of x1: an address that counts the step in would keep it."""
    _agree(["ldr q0, [x1]", "add w1, w1, #16", "ldr q1, [x1]", "str q1, [x3], #16", *COUNT], {1: 0x7_0000_0100})


def test_what_lies_on_the_stack_stays_above_its_end() -> None:
    lines = ["sub sp, sp, #16", "str q0, [sp]", "ldr q1, [sp]", *COUNT]
    new = unrolled(lines)
    assert new is None or not any("[sp, #-" in str(i) for i in new.body)


def test_a_pointer_that_is_stored_or_read_is_moved_each_time() -> None:
    lines = ("str x1, [x1]", "mov x10, x1", "str x1, [x3]", "ldr q0, [x1], #16", "ld1 { v0.4s }, [x1]", "ldr x1, [x1]")
    for line in lines:
        _agree([line, "add x1, x1, #48", "ldr q5, [x1]", "str q5, [x3], #16", *COUNT], {})
        _agree([line, "sub x1, x1, #48", "ldr q5, [x1]", "str q5, [x3], #16", *COUNT], {}, times=4)


def test_flags_within_the_body_are_its_own() -> None:
    _agree(["ldr x10, [x1]", "add x1, x1, #8", "cmp x10, x11", "csel x11, x10, x11, lt", *COUNT], {})
