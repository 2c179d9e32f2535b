"""Addresses folded: what goes, what stays, and the same left behind, by emulation."""

from random import Random

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, start_state
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.transforms.fold_addresses import fold_addresses

# before, live at the end (of those written), after
CASES = {
    "a sum that a prefetch reads": ("add x15, x11, #256 | prfm pldl1keep, [x15]", "", "prfm pldl1keep, [x11, #256]"),
    "a copy that a load reads": ("mov x2, x1 | ldr q0, [x2, #16]", "v0", "ldr q0, [x1, #16]"),
    "a copy of a copy": ("mov x2, x1 | add x3, x2, #32 | ldr q0, [x3, #-8]", "v0", "ldr q0, [x1, #24]"),
    "a post-indexed copy": (
        "mov x2, x1 | ldr q0, [x2], #16 | ldr q1, [x2], #16",
        "v0 v1",
        "ldr q0, [x1] | ldr q1, [x1, #16]",
    ),
    "a copy that is live": ("mov x2, x1 | ldr q0, [x2]", "v0 x2", "mov x2, x1 | ldr q0, [x1]"),
    "a post-indexed copy that is live": (
        "mov x2, x1 | ldr q0, [x2], #16",
        "v0 x2",
        "mov x2, x1 | ldr q0, [x1] | add x2, x2, #16",
    ),
    "a store through a copy": ("add x2, x1, #8 | str d0, [x2, #8]", "", "str d0, [x1, #16]"),
    "a copy of sp": ("mov x2, sp | str q0, [x2, #16]", "", "str q0, [sp, #16]"),
    "a root that moved on": (
        "mov x2, x1 | add x1, x1, #16 | ldr q0, [x2]",
        "v0 x1",
        "add x1, x1, #16 | ldr q0, [x1, #-16]",
    ),
    "a root that is lost": ("mov x2, x1 | ldr x1, [x0] | ldr q0, [x2]", "v0 x1", None),
    "a root made within": ("ldr x1, [x0] | add x2, x1, #16 | ldr q0, [x2]", "v0", "ldr x1, [x0] | ldr q0, [x1, #16]"),
    "a root made within that is lost": (
        "ldr x1, [x0] | add x2, x1, #16 | ldr x1, [x0, #8] | ldr q0, [x2]",
        "v0 x1",
        None,
    ),
    "a sum of a copy": ("mov x2, x1 | ldr q0, [x2] | add x2, x2, x3", "v0 x2", "ldr q0, [x1] | add x2, x1, x3"),
    "a difference of copies": ("mov x2, x1 | mov x4, x3 | sub x5, x2, x4", "x5", "sub x5, x1, x3"),
    "a sum of a copy that moved on": ("mov x2, x1 | add x2, x2, #8 | add x4, x2, x3", "x4", None),
    "a sum of a copy whose root moved on": ("mov x2, x1 | add x1, x1, #8 | add x4, x2, x3", "x1 x4", None),
    "a sum of a copy of sp": ("mov x2, sp | add x4, x3, x2", "x4", None),
    "an offset out of reach": ("add x2, x1, #1 | ldr q0, [x2, #512]", "v0", None),
    "a pair out of reach": ("add x2, x1, #1000 | ldp q0, q1, [x2, #32]", "v0 v1", None),
    "an index": ("mov x2, x1 | ldr q0, [x2, x3]", "v0", None),
    "a sum of 32 bits": ("add w2, w1, #16 | ldr q0, [x2]", "v0", None),
    "a pointer of its own": ("ldr q0, [x1], #16", "v0 x1", None),
    "a structure has no offset": ("add x2, x1, #16 | ld1 { v0.4s }, [x2]", "v0", None),
    "dead flags stay": ("adds x2, x1, #16 | ldr q0, [x1]", "v0", None),
    "dead loads stay": ("ldr x2, [x1] | ldr q0, [x1]", "v0", None),
    "sp stays": ("sub sp, sp, #32 | str q0, [sp]", "sp", None),
}


@pytest.mark.parametrize("case", CASES)
def test_folding(case: str) -> None:
    before, live, after = CASES[case]
    instrs = tuple(parse_instr(line.strip()) for line in before.split("|"))
    folded = fold_addresses(instrs, frozenset({*live.split(), "x0"}))
    assert " | ".join(" ".join(str(i).split()) for i in folded) == (after or before)


TEMPLATES = (
    "mov x{a}, x{b}",
    "add x{a}, x{b}, #{n}",
    "sub x{a}, x{b}, #{n}",
    "add x{a}, x{a}, #{n}",
    "ldr q{v}, [x{a}, #{m}]",
    "ldr q{v}, [x{a}], #{m}",
    "str q{v}, [x{a}, #{m}]",
    "str q{v}, [x{a}], #{m}",
    "ldr d{v}, [x{a}, #-{m}]!",
    "ldp q{v}, q{w}, [x{a}, #{m}]",
    "str x{b}, [x{a}, #{m}]",
    "ldp d{v}, d{w}, [x{a}], #{m}",
    "stp x{a}, x{b}, [x{c}]",
    "prfm pldl1keep, [x{a}]",
    "str x{a}, [x{a}, #{m}]",
    "sub x{a}, x{b}, x{b}",
    "add x{a}, x{c}, x{b}, lsl #1",
)


def test_random_pointers_leave_the_same_behind() -> None:
    dice = Random("pointers")
    texts, lives, fewer = [], [], 0
    for number in range(150):
        names = {"f": number}
        lines = []
        for _ in range(dice.randint(3, 14)):
            a, b, c = (dice.choice(range(1, 6)) for _ in range(3))
            v, w = dice.sample(range(16, 24), 2)
            names = {
                "a": a,
                "b": b,
                "c": c,
                "v": v,
                "w": w,
                "n": dice.choice((1, 16, 24, 300)),
                "m": dice.choice((16, 32, 48)),
            }
            lines.append(dice.choice(TEMPLATES).format(**names))
        live = frozenset(f"x{i}" for i in range(1, 6) if dice.random() < 0.4) | {f"v{i}" for i in range(16, 24)}
        folded = [str(i) for i in fold_addresses([parse_instr(line) for line in lines], live)]
        fewer += len(folded) < len(lines)
        lives.append(live)
        for name, body in (("before", lines), ("after", folded)):
            texts.append(f"{name}{number}:\n" + "".join(f"\t{line}\n" for line in [*body, "ret"]))
    machine = EmulatedCore(assemble_image("".join(texts)))
    for number, live in enumerate(lives):
        for seed in range(3):
            old, new = (machine.run(f"{name}{number}", start_state(seed)) for name in ("before", "after"))
            if old.end != End.RETURNED:
                continue
            assert new.end == End.RETURNED and old.written == new.written, texts[2 * number]
            assert all(old.register(r) == new.register(r) for r in live), (texts[2 * number], texts[2 * number + 1])
    assert fewer > 20
