"""The dispatcher of assembly functions, executed: it goes where the tables say and leaves every argument alone."""

from dataclasses import replace

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import EmulatedCore, End, RunResult, State, start_state
from mavcg.passes.asm.transforms.dispatcher_text import dispatcher_text
from mavcg.passes.ir.dispatch import RuntimeNames

pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")

RUNTIME = RuntimeNames("offset", "cores", "select", 8192)
AREA = 0x5000_0000  # of rseq; the thread pointer is 0 in the emulator
# x16 and x17 are free to any dispatcher, so that a version may say by them which it is.
VERSIONS = '\t.text\nf.generic:\n\tmov x17, #1\n\tret\n"f.cortex-a55":\n\tmov x17, #2\n\tret\n'
# As C may: it keeps what callees keep, and nothing else.
SELECT = (
    "select:\n"
    + "".join(f"\tmov x{n}, #{n}\n" for n in range(1, 18))
    + "".join(f"\tmovi v{n}.16b, #{n}\n" for n in range(8))
    + "".join(f"\tmovi v{n}.16b, #{n}\n" for n in range(16, 32))
    + "".join(f"\tmov v{n}.d[1], x1\n" for n in range(8, 16))
    + "\tcmp x1, x1\n\tadrp x0, {chosen}\n\tadd x0, x0, :lo12:{chosen}\n\tret\n"
)


def ran(cpu: int, offset: int = AREA, cores: str = "1, 2, 0", chosen: str = "f.generic") -> tuple[State, RunResult]:
    text = dispatcher_text("f", ["f.generic", "f.cortex-a55"], RUNTIME) + VERSIONS
    text += SELECT.replace("{chosen}", f'"{chosen}"')
    text += f"\t.data\n\t.p2align 3\noffset: .xword {offset}\ncores: .byte {cores}\n\t.zero 8192\n"
    area = (AREA, bytes(4) + (cpu % (1 << 32)).to_bytes(4, "little"))
    state = replace(start_state(5), given=(area,))
    return state, EmulatedCore(assemble_image(text)).run("f", state)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("cpu", "offset", "chosen", "version"),
    [
        (0, AREA, "f.generic", 1),
        (1, AREA, "f.generic", 2),
        (2, AREA, "f.cortex-a55", 2),  # a CPU that is not known yet: the runtime chooses
        (8192, AREA, "f.cortex-a55", 2),  # beyond the table
        (-1, AREA, "f.generic", 1),  # a thread that is not registered
        (1, 0, "f.generic", 1),  # no rseq
    ],
)
def test_it_goes_to_the_cpus_version_with_all_arguments(cpu: int, offset: int, chosen: str, version: int) -> None:
    state, outcome = ran(cpu, offset, chosen=chosen)

    assert outcome.end == End.RETURNED and outcome.x[17] == version
    assert outcome.x[:16] == state.x[:16] and outcome.x[18:] == state.x[18:]
    assert outcome.v == state.v and outcome.sp == state.sp


def test_the_fast_path_leaves_the_flags_and_writes_nothing() -> None:
    state, outcome = ran(1)
    assert outcome.nzcv == state.nzcv and not outcome.written


def test_without_rseq_every_call_selects() -> None:
    text = dispatcher_text("f", ["f.generic"], replace(RUNTIME, has_rseq=False), weak=True, visibility="hidden")
    assert "x16, offset" not in text and "\tb f.slow\n" in text and "\t.weak f\n\t.hidden f\n" in text
