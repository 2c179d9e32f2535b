"""Write a model's program as C: the tables that the engine (csrc/engine.c) is compiled with.

It is pure: values in, text out.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mavcg.graph import DTYPES
from mavcg.hardware.board import Board
from mavcg.runtime.c_arrays import static_array
from mavcg.runtime.core_speeds import plan_rows, speed_rows
from mavcg.runtime.coreset import NEED_WORDS, SLOW_ID, CoreSet
from mavcg.runtime.count_tables import count_tables_text, counts_of
from mavcg.runtime.library_tables import TYPE_CODES
from mavcg.runtime.model_header import EXPORTED, api_name, constants_symbol
from mavcg.runtime.program_check import check_program
from mavcg.runtime.run_tables import is_external, loop_lines, operand_tables, run_lines, stage_table
from mavcg.specs.model_program import PagedWeights, Program, ProgramState, ProgramTensor
from mavcg.text.safe_text import c_string, comment

DEFAULT_SPIN_US = 50
BATTERY_SPIN_US = 10
SCRATCH_ALIGN = 128  # SCRATCH_ALIGN of csrc/engine.h
SAVED_HEADER_BYTES = 16  # struct states_header of csrc/engine_state.c
KEPT_LENGTH_BYTES = 8  # behind the states, for each length that a context keeps


def default_spin_us(board: Board | None) -> int:
    """Return the time that waiting threads spin before they sleep, in microseconds.

    It is short for boards that a battery powers.
    """
    return BATTERY_SPIN_US if board is not None and board.battery else DEFAULT_SPIN_US


def kernels_of(program: Program) -> tuple[str, ...]:
    """Return a program's kernels, each once, in the order of first use, which numbers them in the tables."""
    return tuple(dict.fromkeys(step.kernel for step in program.steps))


@dataclass(frozen=True)
class EngineOptions:
    """Facts that are fixed in a model's engine besides its program.

    threads: default of a context; 0 for one for each CPU. spin_us: time that waiting threads spin before they sleep, in
    microseconds, unless MAVCG_SPIN_US is set. part: symbol of the engine's table, if the model is one of several in a
    library. in_application: True if these share memory (runtime/application_text.py). constants: symbol of the
    constants, if several models share them. pages: of constants that a run maps and releases, by phase.
    base_extensions: LLVM's names of what all versions need beyond the base of the architecture; a context is refused
    where it is not offered.
    """

    threads: int = 1
    spin_us: int = DEFAULT_SPIN_US
    part: str = ""
    in_application: bool = False
    constants: str = ""
    pages: tuple[PagedWeights, ...] = ()
    base_extensions: tuple[str, ...] = ()


DEFAULT_OPTIONS = EngineOptions()


def tables_text(
    program: Program,
    core_set: CoreSet,
    versions: Mapping[str, Sequence[str]],
    base_needs: Sequence[int] = (0,) * NEED_WORDS,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> str:
    """Return the text of mavcg_model_tables.h.

    Args:
        versions: for each kernel, linkage names of the versions that generic and each core of the set run, in the order
            of their ids.
        base_needs: bits of CPUID (csrc/x86_needs.h), or of AT_HWCAP and AT_HWCAP2, that every version needs.
    Raises: MavcgError for a program that the engine's tables cannot hold.
    """
    check_program(program)
    kernels = kernels_of(program)
    runs, operands = run_lines(program, {kernel: i for i, kernel in enumerate(kernels)})
    loops, moving, moving_counts = loop_lines(program, runs, operands)
    weight_lines, weights_of = speed_rows(program, core_set)
    sizes = {
        "PHASES": len(runs),
        "OPERANDS": len(operands),
        "EXTERNAL_OPERANDS": sum(map(is_external, operands)),
        "DEFAULT_THREADS": options.threads,
        "LOOPS": len(loops),
        "VERSIONS": core_set.version_count,
        "SPIN_US": options.spin_us,
    }
    return "".join(
        [
            f"/* Model {comment(program.name)}. Made by mavcg. */\n",
            f'#define MODEL_API "{EXPORTED}{api_name(program.name)}"\n',
            f"#define MODEL_NAME {c_string(program.name)}\n",
            *([f"#define MODEL_PART {c_string(options.part)}\n"] if options.part else []),
            "#define MODEL_IN_APPLICATION 1\n" if options.in_application else "",
            f"#define MAVCG_SET {core_set.tag}\n",
            f"#define MAVCG_CONSTANTS {options.constants or constants_symbol(program)}\n",
            f"#define PAGED {int(bool(options.pages))}\n",
            _sizes(program, sizes),
            static_array("const uint32_t base_needs[MAVCG_NEED_WORDS]", [", ".join(f"{w:#x}" for w in base_needs)]),
            'extern const char MAVCG_CONSTANTS[] __attribute__((visibility("hidden")));\n',
            _functions(kernels, versions, core_set),
            _element_bytes(),
            _tensors("inputs", program.inputs),
            _tensors("outputs", program.outputs),
            _tensors("states", [ProgramTensor(state.name, state.type) for state in program.states]),
            static_array("const struct engine_state state_table[]", _states(program.states)),
            count_tables_text(program, moving_counts),
            _counted_tables(program),
            _steps(program),
            static_array(
                "const struct engine_step run_table[]",
                (f"{{{', '.join(map(str, numbers))}, {weights_of[step]}, {step}}}," for step, numbers in runs),
            ),
            static_array("const struct engine_loop loop_table[]", loops),
            static_array("const struct engine_moving moving_table[]", moving),
            static_array(f"const uint16_t speed_table[][{core_set.version_count}]", weight_lines),
            static_array("const struct engine_plan plan_table[]", [*plan_rows(program, core_set), "{0},"]),
            static_array("void *const core_ids[]", (f"(void *){number}," for number in range(core_set.version_count))),
            f"static uint64_t core_runs[{core_set.version_count}];\n",
            operand_tables(program, operands),
            *([_pages(options.pages)] if options.pages else []),
            *([stage_table(program, core_set)] if options.in_application else []),
        ]
    )


def _sizes(program: Program, sizes: Mapping[str, int]) -> str:
    """Return the #defines of a program's counts and bytes. sizes: further counts."""
    counts = {
        "INPUTS": len(program.inputs),
        "OUTPUTS": len(program.outputs),
        "STEPS": len(program.steps),
        **sizes,
        "STAGES": len(program.stages),
        "STATES": len(program.states),
        "DIMENSIONS": len(program.dimensions),
        "KEPT": len(program.grown_lengths),
        "COUNTS": len(counts_of(program)),
        "COUNTED": program.counted,
        "COUNTED_OUTPUTS": sum(tensor.counted_axis is not None for tensor in program.outputs),
        "TENSOR_DIMS": sum(len(tensor.type.shape) for tensor in (*program.inputs, *program.outputs)),
    }
    bytes_of = {
        "ARENA_BYTES": program.arena_bytes,
        "SCRATCH_BYTES": program.scratch_bytes,
        "SCRATCH_STRIDE": -(-program.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN,
        "CONSTANTS_BYTES": program.constants_bytes,
        "STATE_BYTES": program.state_bytes,
        "SWAPPED_BYTES": program.swapped_bytes,
        "MOVED_BYTES": program.moved_bytes,
        "SAVED_BYTES": SAVED_HEADER_BYTES
        + sum(state.type.bytes for state in program.states)
        + KEPT_LENGTH_BYTES * len(program.grown_lengths),
        "STATES_DIGEST": states_digest(program),
    }
    lines = [f"#define {name} {value}\n" for name, value in counts.items()]
    return "".join(lines + [f"#define {name} {value}ull\n" for name, value in bytes_of.items()])


def _counted_tables(program: Program) -> str:
    """Return the tables of outputs of whose length each run decides; "" without any."""
    counted = [(i, t.counted_axis, t.counted) for i, t in enumerate(program.outputs) if t.counted_axis is not None]
    if not counted:
        return ""
    return static_array(
        "const mavcg_counted counted_table[]", (f"{{{i}, {axis}}}," for i, axis, _ in counted)
    ) + static_array("const uint32_t counted_words[]", (f"{word}," for _, _, word in counted))


def _steps(program: Program) -> str:
    """Return the table of steps that mavcg_step describes to users."""
    lines = (
        f"{{{c_string(s.name)}, {c_string(s.op)}, {c_string(s.kernel)}, {s.rows}, "
        f"{min(s.min_chunk_rows, s.rows)}, "
        f"{s.work}}},"
        for s in program.steps
    )
    return static_array("const mavcg_step steps_table[]", lines)


def _pages(pages: Sequence[PagedWeights]) -> str:
    """Return the table of constants' pages, in the order of phases."""
    lines = (f"{{{page.phase}, PAGES_{page.advice.upper()}, {page.begin}ull, {page.end}ull}}," for page in pages)
    return static_array("const struct engine_pages page_table[]", [*lines, "{0xFFFFFFFF, PAGES_RELEASE, 0, 0},"])


def states_digest(program: Program) -> int:
    """Return a number of 64 bits by which a library recognises states that it saved: of their names and types, and
    which of them grow."""
    grows = " grows"
    text = "".join(f"{s.name}: {s.type}{grows if s.next_axes else ''}\n" for s in program.states)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _states(states: Sequence[ProgramState]) -> Iterator[str]:
    """Yield the lines of the engine's table of states."""
    first = 0
    for state in states:
        initial = -1 if state.initial is None else state.initial
        flags = f"{int(state.in_place)}, {int(state.moves)}, {state.shaped_axes}, {first}"
        yield f"{{{state.offset}, {state.type.bytes}, {initial}, {flags}}},"
        first += len(state.type.shape)


def _functions(kernels: Sequence[str], versions: Mapping[str, Sequence[str]], core_set: CoreSet) -> str:
    """Return the declarations of the kernels' versions, and the tables that the selector chooses from.

    They have no entry at SLOW_ID, because the engine calls the selector itself.
    """
    assert SLOW_ID == 0
    symbols = {name: f"version_{i}" for i, name in enumerate(dict.fromkeys(v for k in kernels for v in versions[k]))}
    declared = "".join(
        f'extern engine_kernel {ours} __asm__({c_string(theirs)}) __attribute__((visibility("hidden")));\n'
        for theirs, ours in symbols.items()
    )
    count = core_set.version_count
    tables = [", ".join(["0", *(f"(void *){symbols[version]}" for version in versions[k])]) for k in kernels]
    described = (f"{{{c_string(k)}, kernel_versions[{i}], kernel_runs[{i}], 0}}," for i, k in enumerate(kernels))
    return (
        declared
        + static_array(f"void *const kernel_versions[][{count}]", (f"{{{t}}}," for t in tables))
        + f"static uint64_t kernel_runs[{max(1, len(kernels))}][{count}];\n"
        + static_array("struct mavcg_function functions[]", described)
    )


def _element_bytes() -> str:
    """Return the table of element sizes in bytes by type code, with 1 at 0, which is not a code."""
    sizes = dict.fromkeys(range(max(TYPE_CODES.values()) + 1), 1)
    sizes |= {code: DTYPES[name].itemsize for name, code in TYPE_CODES.items()}
    return static_array("const uint8_t element_bytes[]", [f"{', '.join(str(size) for size in sizes.values())},"])


def _tensors(which: str, tensors: Sequence[ProgramTensor]) -> str:
    dims = [d for tensor in tensors for d in tensor.type.shape]
    lines, at = [], 0
    for tensor in tensors:
        rank = len(tensor.type.shape)
        lines.append(
            f"{{{c_string(tensor.name)}, {TYPE_CODES[tensor.type.dtype]}, {rank}, {which}_dims + {at}, "
            f"{tensor.type.bytes}}},"
        )
        at += rank
    return static_array(f"const int64_t {which}_dims[]", (f"{d}," for d in dims), zero="0,") + static_array(
        f"const mavcg_tensor {which}_table[]", lines
    )
