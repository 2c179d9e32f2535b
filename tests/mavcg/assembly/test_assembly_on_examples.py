"""Each module that reads, runs, compares or draws assembly, on a small example: golden texts, the code and the result.

Timing is of a hand-made core, so that a fact of a real core that is corrected changes no text here.
`pytest tests/mavcg/assembly/test_assembly_on_examples.py --update-golden` writes the texts again.
"""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from mavcg.assembly.argument_states import described_state, parse_arguments
from mavcg.assembly.asm_input import version_symbol
from mavcg.assembly.asm_source import preprocess
from mavcg.assembly.checking import check_functions
from mavcg.assembly.code_image import assemble_image
from mavcg.assembly.emulation import State, run
from mavcg.assembly.equivalence import compare
from mavcg.assembly.loop_estimates import BlockEstimate, estimate_function, hottest_first
from mavcg.assembly.repetitions import TooLong, check_repetitions
from mavcg.assembly.schedule_picture import as_text
from mavcg.assembly.tuning import tune_version
from mavcg.assembly.tuning_options import parse_tuning
from mavcg.assembly.version_tuning import TuningJob
from mavcg.hardware.core import Core
from mavcg.hardware.timing import ClassTiming, Timing, UnitUse
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import parse_source
from mavcg.profiles.load import load_core

DOT = """\
\t.text
\t.globl dot
\t.type dot, %function
dot:
    movi v0.4s, #0
.Lloop:
    ldr q1, [x0], #16
    ldr q2, [x1], #16
    fmla v0.4s, v1.4s, v2.4s
    subs x2, x2, #4
    b.ne .Lloop
    faddp v0.4s, v0.4s, v0.4s
    faddp s0, v0.2s
    ret
\t.size dot, .-dot
"""
WRONG = DOT.replace("[x1], #16", "[x1], #32")  # skips every other vector of the second buffer
CALLS = """\
\t.text
\t.globl f, g
f:
    bl g
    bl missing
    ret
g:
    adrp x0, table
    ldr x0, [x0, :lo12:table]
    ret
\t.data
table:
\t.xword 7
"""
MACROS = """\
#define ROWS 2
.macro load row
    ldr q\\row, [x0]
.endm
f:
    mov x1, #ROWS
    load 0
    ret
"""
REPEATED = """\
f:
    .rept 300
    .rept 300
    nop
    .endr
    .endr
    ret
"""
ARGUMENTS = "dot: buf:32=0 buf:32 i:8 f:1.5"


def lines_of(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in items)


def small_core() -> Timing:
    """An in-order core with two slots, one load unit and one vector unit."""

    def row(name: str, latency: int, pool: str) -> ClassTiming:
        return ClassTiming(name, latency, 1.0, (UnitUse((pool,), 1),), 0, "hand-made")

    rows = (
        row("ldr_q", 4, "load"),
        row("fmla_q", 4, "vec"),
        row("fadd_q", 4, "vec"),
        row("movi_q", 1, "vec"),
        row("alu", 1, "alu"),
        row("branch", 1, "branch"),
        row("add_q", 2, "vec"),
    )
    pools = {"load": 1, "vec": 1, "alu": 2, "branch": 1}
    return Timing("small", "in", 2, pools, {entry.name: entry for entry in rows})


def loops_of_dot() -> list[BlockEstimate]:
    from mavcg.assembly.asm_input import AsmInput
    from mavcg.assembly.asm_source import AsmSource

    statements = parse_source(DOT)
    (function,) = functions_of(statements)
    code = AsmInput(AsmSource(DOT, "dot.s"), statements, (function,))
    return estimate_function(code, function, small_core())


def shown_argument_states() -> str:
    ((arguments,),) = parse_arguments([ARGUMENTS]).values()
    state = described_state(1, arguments)
    contents = [f"{address:#x}: {len(data)} bytes{' of 0' if not any(data) else ''}" for address, data in state.given]
    (number,) = struct.unpack("<f", (state.v[0] & 0xFFFFFFFF).to_bytes(4, "little"))
    return lines_of([*(f"x{n} = {state.x[n]:#x}" for n in range(3)), f"s0 = {number}", *contents])


def shown_code_image() -> str:
    image = assemble_image(CALLS)
    sections = [
        f"{s.name}: {len(s.data)} bytes{', executable' if s.executable else ''}{', writable' if s.writable else ''}"
        for s in image.sections
    ]
    functions = [f"{name}: {len(image.extent(name))} instructions" for name in image.functions]
    return lines_of([*sections, *functions, f"calls of functions that are not here: {list(image.externals.values())}"])


def shown_emulation() -> str:
    image = assemble_image(CALLS)
    state = described_state(1, ())
    results = [(name, run(image, name, state)) for name in ("g", "f")]
    return lines_of(
        f"{name}: {r.end}{f' at {r.where}' if r.where else ''}; x0 = {r.x[0]}; {len(r.executed)} instructions ran"
        for name, r in results
    )


def shown_equivalence() -> str:
    ((arguments,),) = parse_arguments(["dot: buf:64 buf:64 i:8"]).values()
    before, found = assemble_image(DOT), []

    def start(seed: int) -> State:
        return described_state(seed, arguments)

    for name, text in (("itself", DOT), ("the wrong form", WRONG)):
        result = compare(
            before, assemble_image(text), "dot", (1, 2), start=lambda seed: described_state(seed, arguments)
        )
        seeds = f"the same from {result.agreed} states" if result.passed else f"differs in {result.differences[0].what}"
        found.append(f"compared with {name}: {seeds}; {100 * result.coverage:.0f} % of the instructions ran")
    return lines_of(found)


def shown_checking() -> str:
    arguments = parse_arguments(["dot: buf:64 buf:64 i:8"])
    described = check_functions(DOT, DOT, ["dot"], arguments, "dot.s")["dot"]
    missing = check_functions(CALLS, CALLS, ["f"], {}, "calls.s")["f"]
    return lines_of(
        [
            f"dot: {described.word} start states agree, {100 * described.coverage:.0f} % of the instructions ran",
            f"f: {missing.word}: {missing.why}",
        ]
    )


def shown_loop_estimates() -> str:
    (loop,) = hottest_first(loops_of_dot())
    assert loop.estimate is not None
    work = f"{loop.work.flops} FLOP in {loop.estimate.cycles:g} cycles: {loop.per_cycle(loop.work.flops):.2f} a cycle"
    return f"{loop.kind} at {loop.location}, {loop.instructions} instructions\n{work}\n"


def shown_schedule_picture() -> str:
    (loop,) = loops_of_dot()
    assert loop.estimate is not None
    return as_text(loop.estimate)


def shown_asm_source(folder: Path) -> str:
    path = folder / "macros.S"
    path.write_text(MACROS)
    source = preprocess(path, ())
    lines = source.text.splitlines()
    shown = [line for line in lines if line.strip() and not line.startswith("#")]
    return lines_of(
        [*shown, f"the mov is in line {source.line(1 + lines.index(next(x for x in lines if 'mov' in x)))}"]
    )


def shown_repetitions() -> str:
    with pytest.raises(TooLong) as refused:
        check_repetitions(REPEATED, "repeated.s")
    return f"{refused.value}\n"


def shown_version_symbols() -> str:
    symbols = ["f", "f.generic", "f.cortex-a55", "g"]
    cores = [load_core(name) for name in ("cortex-a55", "cortex-a75")]
    return lines_of(
        f"{name} on {core.name}: {version_symbol(name, core, symbols, 'lib.so')}"
        for name in ("f", "g")
        for core in cores
    )


def shown_tuning_options() -> str:
    return lines_of(f"--tune {word}: {parse_tuning(word)}" for word in ("off", "fast", "best"))


def shown_tuning(core: Core) -> str:
    kept, account = tune_version(TuningJob(core, DOT, "dot", DOT, "dot", why_not="it is volatile", account=False))
    assert kept == DOT
    return lines_of(f"{report.name}: unchanged, because {report.unchanged_because}" for report in account.functions)


EXAMPLES: dict[str, tuple[str, Callable[[Path], str]]] = {
    "argument_states": (f"--args '{ARGUMENTS}'\n", lambda _: shown_argument_states()),
    "code_image": (CALLS, lambda _: shown_code_image()),
    "emulation": (CALLS, lambda _: shown_emulation()),
    "equivalence": (DOT, lambda _: shown_equivalence()),
    "checking": (DOT, lambda _: shown_checking()),
    "loop_estimates": (DOT, lambda _: shown_loop_estimates()),
    "schedule_picture": (DOT, lambda _: shown_schedule_picture()),
    "asm_source": (MACROS, shown_asm_source),
    "repetitions": (REPEATED, lambda _: shown_repetitions()),
    "version_symbols": ("symbols: f, f.generic, f.cortex-a55, g\n", lambda _: shown_version_symbols()),
    "tuning_options": ("", lambda _: shown_tuning_options()),
    "tuning": (DOT, lambda _: shown_tuning(load_core("cortex-a55"))),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name: str, golden: object, tmp_path: Path) -> None:
    before, result = EXAMPLES[name]
    assert golden == f"{before}\nresult:\n{result(tmp_path)}"
