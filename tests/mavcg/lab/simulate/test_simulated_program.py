"""Simulated calls: what they leave behind, what they follow, and how those end that cannot be simulated."""

import re
import struct
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from mavcg.assembly.code_image import assemble_image
from mavcg.cost.core_facts import simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.call_arguments import BUFFERS, CallState, call_state
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.lab.simulate.simulation import parse_arguments_of_call, simulate, simulation_json
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.zig import run_zig

CORE = load_core("cortex-a55")
TIMING = load_timing(CORE)

FUNCTIONS = """
	.text
	.macro function name
	.globl \\name
	.type \\name, %function
\\name:
	.endm
function axpy
	dup v16.4s, v0.s[0]
1:	ldr q1, [x0], #16
	ldr q2, [x1]
	fmla v2.4s, v1.4s, v16.4s
	str q2, [x1], #16
	subs x2, x2, #4
	b.gt 1b
	ret
function nested
	stp x29, x30, [sp, #-16]!
	bl axpy
	ldp x29, x30, [sp], #16
	ret
function through_memcpy
	stp x29, x30, [sp, #-16]!
	bl memcpy
	ldp x29, x30, [sp], #16
	ret
function unknown_callee
	stp x29, x30, [sp, #-16]!
	bl fopen
	ldp x29, x30, [sp], #16
	ret
function system_call
	mov x8, #93
	svc #0
	ret
function trap
	brk #1
	ret
function for_ever
	b for_ever
function counter
1:	ldaxr x2, [x0]
	add x2, x2, #1
	stlxr w3, x2, [x0]
	cbnz w3, 1b
	ldr x4, [x0]
	ret
function with_prefetch
1:	prfm pldl1keep, [x0, #256]
	prfm pldl1keep, [x0, x3, lsl #3]
	ldr x2, [x0], #64
	subs x1, x1, #1
	b.ne 1b
	ret
function eleven
	ldr x9, [sp]
	ldr s8, [sp, #8]
	fmov w10, s8
	add x0, x9, x10
	ret
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_unicorn() -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")


@pytest.fixture(scope="module")
def program() -> SimulatedProgram:
    return SimulatedProgram(assemble_image(FUNCTIONS), TIMING, simulated_core(CORE))


def state(words: str) -> CallState:
    return call_state(parse_arguments_of_call(words))


def left_behind(program: SimulatedProgram, function: str, words: str) -> tuple[list[int], list[int], list[bytes]]:
    """Registers and buffers after a call."""
    begin = state(words)
    program.call(program.image.symbols[function], begin)
    emulator = program.emulator
    x = [emulator.general(n) for n in range(31)]
    v = [int(emulator.uc.reg_read(register)) for register in emulator.v]
    return x, v, [emulator.code(address, len(content)) for address, content in begin.buffers]


@pytest.mark.parametrize(
    "function, words",
    [
        ("axpy", "buf:4096 buf:4096 i:1000 f:2"),
        ("nested", "buf:4096+4 buf:4096 i:40 f:0.5"),
        ("through_memcpy", "buf:100 buf:100 i:99"),
        ("counter", "buf:8"),
        ("with_prefetch", "buf:4096 i:9 i:0 i:3"),
    ],
)
@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a76"])
def test_timing_changes_no_result(program: SimulatedProgram, function: str, words: str, core: str) -> None:
    kind = load_core(core)
    timed = SimulatedProgram(program.image, load_timing(kind), simulated_core(kind))
    assert left_behind(timed, function, words) == left_behind(
        SimulatedProgram(program.image, None, None), function, words
    )


def test_a_copy_is_what_memcpy_makes(program: SimulatedProgram) -> None:
    _, _, (to, source) = left_behind(program, "through_memcpy", "buf:100=0 buf:100 i:99")
    assert to == source[:99] + b"\0"
    assert program.callees == {"memcpy": 1}


def test_a_call_is_followed(program: SimulatedProgram) -> None:
    alone, around = (
        program.call(program.image.symbols[f], state("buf:512 buf:512 i:128 f:1")) for f in ("axpy", "nested")
    )
    assert around.instructions == alone.instructions + 4


def test_arguments_beyond_eight_are_on_the_stack(program: SimulatedProgram) -> None:
    words = "i:0 i:1 i:2 i:3 i:4 i:5 i:6 i:7 i:40 f:0 f:0 f:0 f:0 f:0 f:0 f:0 f:0 f:1"
    x, _, _ = left_behind(program, "eleven", words)
    assert x[0] == 40 + 0x3F800000


def test_instructions_without_facts_are_named_and_their_accesses_counted(program: SimulatedProgram) -> None:
    found = program.call(program.image.symbols["counter"], state("buf:8"))
    assert {text.split()[0] for text in found.unmodelled} >= {"ldaxr", "stlxr"}
    hits, misses = found.caches["l1"]
    assert hits + misses == 3 and found.instructions == 6


def test_prefetches_bring_lines(program: SimulatedProgram) -> None:
    """One address has an offset, the other an index: 4 and 16 lines ahead of the load."""
    cold = SimulatedProgram(program.image, TIMING, replace(simulated_core(CORE), prefetch_lines=0))
    found = cold.call(program.image.symbols["with_prefetch"], state("buf:65536 i:64 i:0 i:128"))
    assert found.prefetched_lines >= 64 and found.caches["l1"][1] <= 10


@pytest.mark.parametrize("core", ["cortex-a72", "cortex-a76", "cortex-a55"])
def test_calls_in_a_row_overlap_as_far_as_the_core_can(core: str) -> None:
    """Six products wait for one another, and calls with arguments of their own for nothing of the call before."""
    kind = load_core(core)
    chain = "\n".join(["\tfmul d0, d0, d0"] * 6)
    image = assemble_image(f"\t.text\n\t.global f\nf:\n{chain}\n\tret\n", "chain.s")
    state = call_state(parse_arguments_of_call("d:1.5"))

    def cycles(follows: bool) -> list[int]:
        program = SimulatedProgram(image, load_timing(kind), simulated_core(kind))
        for _ in range(8):
            program.call(image.symbols["f"], state)
        return [program.call(image.symbols["f"], state, follows=follows).cycles for _ in range(12)][4:]

    alone, in_a_row = cycles(follows=False), cycles(follows=True)
    assert len(set(alone)) == 1 and all(count > 0 for count in in_a_row)
    if kind.order == "in":  # the products of one call after those of the last
        assert sum(in_a_row) <= sum(alone)
    else:
        assert sum(in_a_row) <= 0.7 * sum(alone)


def test_calls_are_equal_however_often(program: SimulatedProgram) -> None:
    begin = state("buf:4096 buf:4096 i:1000 f:2")
    cycles = [program.call(program.image.symbols["axpy"], begin).cycles for _ in range(4)]
    assert cycles[1] == cycles[2] == cycles[3] < cycles[0]


@pytest.mark.parametrize(
    "function, words, error",
    [
        ("axpy", "buf:64 buf:64 i:10000000 f:2", r"axpy\+0x\w+ accesses \d+ bytes at 0x\w+, .* \(argument 1, 64 "),
        (
            "axpy",
            "i:0 i:0 i:4",
            r"accesses \d+ bytes at 0x0, outside all buffers \(no argument is a buffer\); give --args",
        ),
        ("unknown_callee", "", r"calls fopen, which the file does not define; link it in"),
        ("system_call", "", r"system_call\+0x\w+: a system call \(`svc #0`\)"),
        ("trap", "", r"trap(\+0x0)?: `brk #0?x?1` ends the run"),
        ("through_memcpy", "i:5 i:6 i:7", r"memcpy of memory that is not there"),
    ],
)
def test_calls_that_cannot_be_simulated_say_why(
    program: SimulatedProgram, function: str, words: str, error: str
) -> None:
    with pytest.raises(MavcgError, match=error):
        program.call(program.image.symbols[function], state(words))
    # And the next call is as if nothing had been.
    assert program.call(program.image.symbols["axpy"], state("buf:512 buf:512 i:128 f:1")).instructions == 2 + 6 * 32


def test_data_of_other_files_is_zeroes() -> None:
    text = ".text\n.globl f\n.type f, %function\nf:\tadrp x1, there\n\tldr x0, [x1, :lo12:there]\n\tret\n"
    program = SimulatedProgram(assemble_image(text), TIMING, simulated_core(CORE))
    x, _, _ = left_behind(program, "f", "i:5")
    assert x[0] == 0


def test_a_call_without_end_ends_at_the_limit(program: SimulatedProgram) -> None:
    with pytest.raises(MavcgError, match="no end within 1000 instructions, at for_ever"):
        program.call(program.image.symbols["for_ever"], state(""), limit=1000)


def test_a_range_is_no_argument_of_one_call() -> None:
    with pytest.raises(MavcgError, match="argument 2 is a range of integers; a simulated call takes one: give i:N"):
        state("buf:64 i:1..8")


def test_buffers_are_where_they_are_said_to_be() -> None:
    begin = state("buf:100+4 ptrs:2x64=0 i:-1")
    assert begin.x[0] == BUFFERS + 4 and begin.x[2] == (1 << 64) - 1
    table = next(content for address, content in begin.buffers if address == begin.x[1])
    pointers = [int.from_bytes(table[n : n + 8], "little") for n in (0, 8)]
    assert all(dict(begin.buffers)[pointer] == bytes(64) for pointer in pointers)


LIBRARY = """
#include <string.h>
#include <stddef.h>
static float (*volatile scale)(float, float);
static float times(float a, float b) { return a * b; }
__attribute__((noinline)) void fill(float *to, float value, size_t count)
{
    for (size_t n = 0; n < count; n++) to[n] = value;
}
void scaled(float *to, const float *from, size_t count)
{
    scale = times;
    fill(to, 2, count);
    for (size_t n = 0; n < count; n++) to[n] = scale(to[n], from[n]);
    memmove(to + 1, to, (count - 1) * sizeof *to);
}
"""


@pytest.mark.parametrize("form", ["-shared", "-c"])
def test_a_library_and_an_object_run_as_built(tmp_path: Path, form: str) -> None:
    """Calls within the library, through pointers that are relocated, and to a function of libc."""
    (tmp_path / "lib.c").write_text(LIBRARY)
    flags = ["-target", "aarch64-linux-gnu.2.17", "-O2", "-g0", "-fno-sanitize=all", "-fPIC", form]
    run_zig("cc", [*flags, "lib.c", "-o", "out.so"], "building", tmp_path)
    image = read_program(tmp_path / "out.so")
    program = SimulatedProgram(image, TIMING, simulated_core(CORE))
    begin = state("buf:400=0 buf:400 i:100")
    program.call(image.symbols["scaled"], begin)
    (to, _), (source, content) = begin.buffers
    values = struct.unpack("<100f", content)
    result = struct.unpack("<100f", program.emulator.code(to, 400))
    expected = [2 * value for value in values]
    assert list(result) == [expected[0], *expected[:-1]]
    assert source != to and set(program.callees) <= {"memmove"}


def test_files_that_hold_no_aarch64_code_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int f(void) { return 1; }")
    run_zig("cc", ["-target", "x86_64-linux-gnu.2.17", "-c", "x.c", "-o", "x.o"], "building", tmp_path)
    with pytest.raises(MavcgError, match="holds no little-endian AArch64 code"):
        read_program(tmp_path / "x.o")
    (tmp_path / "cut.so").write_bytes((tmp_path / "x.o").read_bytes()[:100])
    with pytest.raises(MavcgError, match="cut.so"):
        read_program(tmp_path / "cut.so")


@pytest.mark.parametrize("kind", ["-c", "-shared"])
def test_damaged_files_are_errors_of_one_line(kind: str, tmp_path: Path) -> None:
    """An object that was cut short ended in a traceback. Each cut or changed file is read, or refused by name."""
    source, whole, damaged = (tmp_path / name for name in ("f.c", "f.elf", "damaged.elf"))
    source.write_text("int table[3] = {1, 2};\nint g(int);\nint f(int i) { return table[i] + g(i); }\n")
    flags = ["-target", "aarch64-linux-gnu.2.17", "-O1", "-fPIC", "-nostdlib", kind]
    run_zig("cc", [*flags, "f.c", "-o", str(whole)], "building", tmp_path)
    content, pick, refused = whole.read_bytes(), Random(7), 0
    for number in range(150):
        changed = bytearray(content)
        if number % 2:
            del changed[pick.randrange(len(content)) :]
        else:
            for at in pick.sample(range(64, len(content)), 10):
                changed[at] = pick.choice((0, 1, 255, pick.randrange(256)))
        damaged.write_bytes(changed)
        try:
            read_program(damaged)
        except MavcgError as error:
            assert str(error).startswith(f"{damaged}: ")
            refused += 1
    assert refused >= 70


def test_the_report_has_what_scripts_rely_on(program: SimulatedProgram) -> None:
    simulation = simulate(program.image, "axpy", "buf:512 buf:512 i:128 f:1", CORE, TIMING, load_board("exynos9820"))
    report = simulation_json(simulation)
    assert {"cycles", "instructions", "ipc", "stalls", "caches", "confidence"} <= set(report)
    assert report["ipc"] == pytest.approx(report["instructions"] / report["cycles"], abs=1e-4)
    assert report["caches"]["l1"] == {"hits": 96, "misses": 0} and report["ghz"] == 1.95
    assert any("caches.l3_latency" in text for text in report["confidence"]["assumed"])


def random_accesses(seed: int, count: int) -> str:
    """A function of random loads and stores, structures and pairs among them."""
    pick = Random(seed)
    forms = """ldr q{a}, [x0, #{o}]|ldr w{x}, [x0, #{o}]|ldp q{a}, q{b}, [x0, #{o}]|ldp x{x}, x{y}, [x0, #{o}]
    |ldrsh x{x}, [x0, #{o}]|ldpsw x{x}, x{y}, [x0, #{o}]|ldr b{a}, [x0, #{o}]|stp w{x}, w{y}, [x0, #{o}]
    |ld1 {{v{a}.16b, v{b}.16b}}, [x0]|ld2 {{v{a}.8b, v{b}.8b}}, [x0]|ld3 {{v{a}.8h, v{b}.8h, v{c}.8h}}, [x0]
    |ld4 {{v{a}.2s, v{b}.2s, v{c}.2s, v{d}.2s}}, [x0]|ld1r {{v{a}.8h}}, [x0]|ld2r {{v{a}.2d, v{b}.2d}}, [x0]
    |ld1 {{v{a}.h}}[3], [x0]|ld3 {{v{a}.s, v{b}.s, v{c}.s}}[1], [x0]|ld1 {{v{a}.2d}}, [x0], #16
    |st1 {{v{a}.16b, v{b}.16b, v{c}.16b, v{d}.16b}}, [x0]|st2 {{v{a}.4s, v{b}.4s}}, [x0]
    |st4 {{v{a}.b, v{b}.b, v{c}.b, v{d}.b}}[7], [x0]
    |st3 {{v{a}.16b, v{b}.16b, v{c}.16b}}, [x0]|stp q{a}, q{b}, [x0, #-32]!
    |str q{a}, [x0], #1|stur x{x}, [x0, #-7]""".split("|")
    lines = []
    for _ in range(count):
        a, x = pick.randrange(28), pick.randrange(2, 17)
        numbers = {"a": a, "b": a + 1, "c": a + 2, "d": a + 3, "x": x, "y": x + 1, "o": 16 * pick.randrange(8)}
        lines.append(pick.choice(forms).strip().format(**numbers))
    return "\n\t".join([".text\n.globl f\n.type f, %function\nf:", *lines, "ret"]) + "\n"


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a72"])
def test_the_emulator_reports_the_bytes_that_the_tables_have(core: str) -> None:
    """A difference would end the call with an error."""
    kind = load_core(core)
    image = assemble_image(random_accesses(1, 400))
    program = SimulatedProgram(image, load_timing(kind), simulated_core(kind))
    found = program.call(image.symbols["f"], state("buf:65536+32768"))
    assert found.instructions == 401 and not found.unmodelled and found.unaligned > 0


def test_a_core_without_a_row_names_the_instruction() -> None:
    lacking = {name: row for name, row in TIMING.classes.items() if name != "crypto"}
    timing = Timing(TIMING.core, "in", TIMING.width, TIMING.pools, lacking, TIMING.forwards)
    image = assemble_image(".text\n.globl f\n.type f, %function\nf:\taese v0.16b, v1.16b\n\tret\n")
    found = SimulatedProgram(image, timing, simulated_core(CORE)).call(image.symbols["f"], state(""))
    (why,) = found.unmodelled.values()
    assert re.search("no row for crypto", why)
