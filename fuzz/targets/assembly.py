"""AArch64 assembly: parsed, its loops and blocks found and rescheduled for an in-order core."""

from functools import cache

from fuzz.mutation.lines import line_mutator
from fuzz.targets import call_target

PACKAGES = ("mavcg.passes.asm",)
mutate = line_mutator(
    "ldr str ldp fmla b.ne cbz subs ret q0 x0 sp #16 [x0] ! .L1: .rept 3 .endr .macro .cfi_endproc "
    "v0.4s lsl adrp .size .p2align 4"
)


@cache
def _core():  # type: ignore[no-untyped-def]
    from mavcg.profiles.load import load_core
    from mavcg.profiles.timing import load_timing

    core = load_core("cortex-a55")
    return load_timing(core), core.policy


def run(data: bytes) -> None:
    """Tune the text by the heuristic; texts of its statements joined are the text itself."""
    from mavcg.passes.asm.isa.source import parse_source
    from mavcg.passes.asm.loop_schedule import SchedulingEffort
    from mavcg.passes.asm.tune import tune

    text = data.decode("utf-8", "surrogateescape")
    timing, policy = _core()

    def read() -> None:
        assert "".join(s.text for s in parse_source(text, "fuzzed.s")) == text, "statements do not join to the text"
        tune(text, timing, policy, SchedulingEffort(0, None, 0.02), "fuzzed.s")

    call_target(read)
