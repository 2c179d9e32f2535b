"""The address of a prefetch from an access beside it, against the registers of an interpreter."""

import random
from collections.abc import Sequence

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.process_blocks import ProcessBlocks, neighbour
from mavcg.lab.simulate.rows import decode
from mavcg.lab.simulate.tables import TimingTables
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


def timing() -> Timing:
    return load_timing(load_core("cortex-a55"))


def words_of(lines: Sequence[str]) -> list[bytes]:
    code = assemble_image("\t.text\nf:\n" + "".join(f"\t{line}\n" for line in lines)).sections[0].data
    return [bytes(code[at : at + 4]) for at in range(0, 4 * len(lines), 4)]


def addresses(lines: Sequence[tuple[str, int | None, int]]) -> list[int | None]:
    """Return the address that each instruction accesses, None without one, where x1 is 0 at first.

    lines: of each instruction its text, the address less x1, and what it adds to x1.
    """
    at, found = 0, []
    for _, offset, change in lines:
        found.append(None if offset is None else at + offset)
        at += change
    return found


def random_line(pick: random.Random) -> tuple[str, int | None, int]:
    n = 16 * pick.randrange(1, 8)
    return pick.choice(
        [
            (f"ldr q0, [x1, #{n}]", n, 0),
            (f"ldr q1, [x1], #{n}", 0, n),
            (f"str q2, [x1, #{n}]!", n, n),
            (f"ldp x4, x5, [x1, #-{n}]", -n, 0),
            ("ld1 {v0.4s, v1.4s}, [x1], #32", 0, 32),
            (f"add x1, x1, #{n}", None, n),
            (f"sub x1, x1, #{n}", None, -n),
            ("fmla v3.4s, v0.4s, v1.4s", None, 0),
            ("ldr x7, [x8]", None, 0),
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_prefetchs_address_follows_from_an_access_beside_it(seed: int) -> None:
    pick = random.Random(seed)
    blocks = []
    for _ in range(12):
        lines = [random_line(pick) for _ in range(6)]
        at = pick.randrange(len(lines) + 1)
        lines.insert(at, (f"prfm pldl1keep, [x1, #{8 * pick.randrange(64)}]", None, 0))
        blocks.append((lines, at))
    words = words_of([text for lines, _ in blocks for text, _, _ in lines])
    for number, (lines, at) in enumerate(blocks):
        block = [decode(word, 4096 + 4 * n) for n, word in enumerate(words[7 * number : 7 * number + 7])]
        by_x1 = addresses(lines)
        own = sum(change for _, _, change in lines[:at]) + int(lines[at][0].split("#")[1][:-1])
        found = neighbour(at, block)
        if found is None:
            assert all(address is None for address in by_x1)
        else:
            known = by_x1[found[0]]
            assert known is not None and known + found[1] == own


@pytest.mark.parametrize(
    "lines",
    [
        ["prfm pldl1keep, [x1, x2]", "ldr x3, [x1]"],
        ["ldr x3, [x1]", "mov x1, x4", "prfm pldl1keep, [x1]"],
        ["ld1 {v3.4s}, [x1], x5", "prfm pldl1keep, [x1]"],
        ["prfm pldl1keep, [x1]", "add x1, x1, x6", "ldr x3, [x1]"],
        ["ldr x1, [x1]", "prfm pldl1keep, [x1]"],
        ["ldr x3, [x1, x2]", "prfm pldl1keep, [x1]"],
    ],
)
def test_an_address_that_no_access_tells_is_unknown(lines: list[str]) -> None:
    block = [decode(word, 4096) for word in words_of(lines)]
    at = next(n for n, line in enumerate(lines) if line.startswith("prfm"))
    assert neighbour(at, block) is None


def test_rows_of_a_block_name_the_access_beside_a_prefetch() -> None:
    facts = timing()
    blocks = ProcessBlocks(facts, TimingTables(facts))
    words = words_of(["ldr q0, [x1], #16", "prfm pldl1keep, [x1, #240]", "ret"])
    blocks.define(5, 4096, b"".join(words))
    address, rows, count = blocks.rows(5)
    assert (address, count) == (4096, 3)
    assert (rows[1].beside, rows[1].beside_offset) == (1, 256)
    assert [rows[n].unmodelled for n in range(3)] == [0, 0, 0]
