"""A model's program as C: the tables that the engine (csrc/engine.c) is compiled with, and the header for its users.

Pure: values in, text out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES
from mavcg.hardware.board import Board
from mavcg.runtime.core_speeds import plan_rows, speed_rows, stage_plan
from mavcg.runtime.coreset import SLOW_ID, X86_WORDS, CoreSet
from mavcg.runtime.type_codes import TYPE_CODES
from mavcg.specs.model_program import OperandAddress, Program, ProgramPhase, ProgramTensor, RingBuffer
from mavcg.text.safe_text import c_identifier, c_string, comment

CSRC = Path(__file__).parent / "csrc"

_BASES = {
    "arena": "IN_ARENA",
    "constants": "IN_CONSTANTS",
    "input": "IN_INPUT",
    "output": "IN_OUTPUT",
    "fault": "IN_FAULT",
}
EXPORTED = "mavcg_model_"  # prefix of all names that a model library exports
_SHORT_OF_LIBC = {"pthread", "thrd", "timer"}  # pthread_create, thrd_create, timer_create: often used beside a model
# Headers that C programs and libc's own headers include (C23, 7; POSIX.1-2024, 14; glibc): a file of that name beside
# the program, in a folder given with -I, would be taken for them.
_HEADERS = frozenset(
    (
        "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
        "stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time "
        "uchar wchar wctype aio cpio devctl dirent dlfcn endian fcntl fmtmsg fnmatch ftw getopt glob grp iconv "
        "langinfo libgen libintl monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search semaphore "
        "spawn strings stropts syslog tar termios trace ulimit unistd utime utmpx wordexp alloca byteswap elf "
        "error features link malloc memory values"
    ).split()
)
_FUNCTIONS = (
    "create", "destroy", "run", "run_sized", "profile", "cancel", "threads", "inputs", "outputs", "steps", "error_text",
)  # fmt: skip
DEFAULT_SPIN_US = 50
BATTERY_SPIN_US = 10
SCRATCH_ALIGN = 128  # SCRATCH_ALIGN of csrc/engine.h
_MAX_ROWS = (1 << 31) - 1  # below NO_ROWS of csrc/engine_pool.c
MAX_STAGES = 32  # a pipeline's: more than a processor has clusters, and two digits in a thread's name
_MAX_STEPS = (1 << 20) - 1  # of the ticket of csrc/engine_chunk.c
MOVED_LINE = 64  # bytes; of csrc/engine.h
_MOVED_CHUNK = 1024  # lines that a thread copies at least
_MOVE = 0xFFFFFFFF  # MOVE of csrc/engine.h
_MAX_CONSTANTS_BYTES = 2_000_000_000  # code reaches them by a signed 32-bit distance


def default_spin_us(board: Board | None) -> int:
    """Time that waiting threads poll before they sleep, in microseconds: short where a battery powers the board."""
    return BATTERY_SPIN_US if board is not None and board.battery else DEFAULT_SPIN_US


def api_name(name: str) -> str:
    """Return the name of a model's C functions and header, a C identifier: resnet50-v1 -> resnet50_v1

    model_ stands in front where the name begins with a digit or with a prefix of mavcg's own names, and where header or
    functions would have names of the C library's.
    """
    word = c_identifier(name, "model")
    ours = word == "mavcg" or word.startswith(("mavcg_", "MAVCG_"))
    return f"model_{word}" if word[0].isdigit() or ours or word in _SHORT_OF_LIBC | _HEADERS else word


def constants_symbol(program: Program) -> str:
    """Return the hidden symbol of a model's packed constants."""
    return f"mavcg_constants_{api_name(program.name)}"


def network_symbol(name: str) -> str:
    """Return the hidden symbol by which an application's library knows the engine of a network."""
    return f"mavcg_network_{api_name(name)}"


def kernels_of(program: Program) -> tuple[str, ...]:
    """Return a program's kernels, each once, in the order of first use: a kernel's position is its number in the
    tables."""
    return tuple(dict.fromkeys(step.kernel for step in program.steps))


def tables_text(
    program: Program,
    core_set: CoreSet,
    versions: Mapping[str, Sequence[str]],
    base_needs: Sequence[int] = (0,) * X86_WORDS,
    threads: int = 1,
    spin_us: int = DEFAULT_SPIN_US,
    part: str = "",
    in_application: bool = False,
    constants: str = "",
) -> str:
    """Return mavcg_model_tables.h.

    versions: kernel -> linkage names of the versions that generic and each core of the set run, in the order of their
    ids. base_needs: CPUID bits that every version needs (csrc/x86_needs.h). threads: a context's, where its
    user does not say. spin_us: time that waiting threads poll before they sleep, in microseconds, where
    MAVCG_SPIN_US is not set. part: the symbol of the engine's table where the model is one of several in a library.
    in_application: they share memory (runtime/application_text.py). constants: the symbol of the constants where
    several models have them together.
    Raises: MavcgError for a program that the engine's tables cannot hold.
    """
    check_program(program)
    kernels = kernels_of(program)
    number = {kernel: i for i, kernel in enumerate(kernels)}
    symbols = {name: f"version_{i}" for i, name in enumerate(dict.fromkeys(v for k in kernels for v in versions[k]))}
    runs, operands = _runs(program, number)
    external = [i for i, place in enumerate(operands) if place.base in ("input", "output")]
    rings = [(i, ring) for i, place in enumerate(operands) if (ring := _ring_of(place, program)) is not None]
    weight_lines, weights_of = speed_rows(program, core_set)
    counts = {
        "INPUTS": len(program.inputs), "OUTPUTS": len(program.outputs), "STEPS": len(program.steps),
        "PHASES": len(runs),
        "OPERANDS": len(operands), "EXTERNAL_OPERANDS": len(external), "DEFAULT_THREADS": threads,
        "VERSIONS": core_set.version_count, "SPIN_US": spin_us, "STAGES": len(program.stages),
    }  # fmt: skip
    bytes_of = {
        "ARENA_BYTES": program.arena_bytes, "SCRATCH_BYTES": program.scratch_bytes,
        "SCRATCH_STRIDE": -(-program.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN,
        "CONSTANTS_BYTES": program.constants_bytes,
    }  # fmt: skip
    parts = [
        f"/* Model {comment(program.name)}. Made by mavcg. */\n",
        f'#define MODEL_API "{EXPORTED}{api_name(program.name)}"\n',
        f"#define MODEL_NAME {c_string(program.name)}\n",
        *([f"#define MODEL_PART {c_string(part)}\n"] if part else []),
        "#define MODEL_IN_APPLICATION 1\n" if in_application else "",
        f"#define MAVCG_SET {core_set.tag}\n",
        f"#define MAVCG_CONSTANTS {constants or constants_symbol(program)}\n",
        *(f"#define {name} {value}\n" for name, value in counts.items()),
        *(f"#define {name} {value}ull\n" for name, value in bytes_of.items()),
        _array("const uint32_t base_needs[1][X86_WORDS]", ["{" + ", ".join(f"{w:#x}" for w in base_needs) + "},"]),
        'extern const char MAVCG_CONSTANTS[] __attribute__((visibility("hidden")));\n',
        *(
            f'extern engine_kernel {ours} __asm__({c_string(theirs)}) __attribute__((visibility("hidden")));\n'
            for theirs, ours in symbols.items()
        ),
        _functions(kernels, versions, symbols, core_set),
        _element_bytes(),
        _tensors("inputs", program.inputs),
        _tensors("outputs", program.outputs),
        _array(
            "const mavcg_step steps_table[]",
            (
                f"{{{c_string(s.name)}, {c_string(s.op)}, {c_string(s.kernel)}, {s.rows}, "
                f"{_at_most(s.min_chunk_rows, s.rows)}, "
                f"{s.work}}},"
                for s in program.steps
            ),
        ),
        _array(
            "const struct engine_step run_table[]",
            (f"{{{', '.join(map(str, numbers))}, {weights_of[step]}, {step}}}," for step, numbers in runs),
        ),
        _array(f"const uint16_t speed_table[][{core_set.version_count}]", weight_lines),
        _array("const struct engine_plan plan_table[]", [*plan_rows(program, core_set), "{0},"]),
        _array("void *const core_ids[]", (f"(void *){number}," for number in range(core_set.version_count))),
        f"static uint64_t core_runs[{core_set.version_count}];\n",
        _array(
            "const struct engine_operand operand_table[]",
            (f"{{{place.offset}, {_BASES[place.base]}, {place.index}}}," for place in operands),
        ),
        _array("const uint32_t external_table[]", (f"{i}," for i in external), zero="0,"),
        _array(
            "const struct engine_ring_operand ring_table[]",
            [*(f"{{{i}, {ring.copies}, {ring.stride}}}," for i, ring in rings), "{0},"],
        ),
        *([_stages(program, core_set)] if in_application else []),
    ]
    return "".join(parts)


def check_program(program: Program) -> None:
    """Check a program. Raises: MavcgError where an operand lies outside its base, or a size is more than the tables
    hold."""
    if program.constants_bytes > _MAX_CONSTANTS_BYTES:
        raise MavcgError(
            f"model {program.name}: {program.constants_bytes} bytes of weights; a library holds {_MAX_CONSTANTS_BYTES}"
        )
    if len(program.steps) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.steps)} steps; a library holds {_MAX_STEPS}")
    ends = {"arena": program.arena_bytes, "constants": program.constants_bytes}
    if len(program.phases) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.phases)} phases; a library holds {_MAX_STEPS}")
    _check_stages(program)
    for step in program.steps:
        if step.rows < 1 or step.min_chunk_rows < 1 or step.call_rows < 0:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows in chunks of {step.min_chunk_rows} and calls of "
                f"{step.call_rows}; rows and chunks are 1 or more, calls 0 or more"
            )
        if step.rows > _MAX_ROWS:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows; the engine counts up to {_MAX_ROWS}: let a row of "
                f"{step.kernel} be more work"
            )
        for place in step.operands:
            tensors = {"input": program.inputs, "output": program.outputs}.get(place.base, ())
            if place.base == "fault":
                fits = place.offset == 0
            elif place.base in ends:
                fits = 0 <= place.offset <= ends[place.base]
            else:
                fits = place.index < len(tensors) and 0 <= place.offset <= tensors[place.index].type.bytes
            if not fits:
                raise MavcgError(f"step '{step.name}': an operand at {place}, which the program does not have")


def _check_stages(program: Program) -> None:
    """Check stages and the buffers between them. Raises: MavcgError."""
    begins = [stage.begin for stage in program.stages]
    ends = [0, *(stage.end for stage in program.stages)]
    if program.stages and (
        program.phases or len(program.stages) > MAX_STAGES or begins != ends[:-1] or ends[-1] != len(program.steps)
        or any(stage.begin >= stage.end for stage in program.stages)
    ):  # fmt: skip
        raise MavcgError(
            f"model {program.name}: {len(program.stages)} stages; up to {MAX_STAGES} cover all steps, in order, whole"
        )
    for ring in program.rings:
        end = ring.offset + ring.stride * ring.copies
        if ring.copies < 2 or ring.stride < 1 or not 0 <= ring.offset < end <= program.arena_bytes:
            raise MavcgError(f"model {program.name}: {ring}: copies of a buffer lie in the arena, two at least")


def _at_most(size: int, rows: int) -> int:
    """Return a chunk or call size that fits into 32 bits: no larger than the step."""
    return min(size, rows)


def _array(declaration: str, lines: Iterable[str], zero: str = "{0},") -> str:
    """Return the C text of a static array; without lines it has one unused element, since C has no empty arrays."""
    body = "".join(f"    {line}\n" for line in list(lines) or [zero])
    return f"static {declaration} = {{\n{body}}};\n"


def _runs(
    program: Program, kernels: Mapping[str, int]
) -> tuple[list[tuple[int, tuple[int, ...]]], list[OperandAddress]]:
    """Return the lines of run_table, (step, the fields before `speeds`), and all operands; equal lists of operands are
    there once where steps are computed by parts."""
    phases = program.phases or tuple(
        ProgramPhase(number, 0, step.rows, step.operands) for number, step in enumerate(program.steps)
    )
    runs: list[tuple[int, tuple[int, ...]]] = []
    operands: list[OperandAddress] = []
    firsts: dict[tuple[OperandAddress, ...], int] = {}
    for phase in phases:
        first = firsts.setdefault(phase.operands, len(operands))
        if first == len(operands):
            operands += phase.operands
        step = program.steps[phase.step]
        if phase.moved_bytes:
            lines = phase.moved_bytes // MOVED_LINE
            fields = (0, lines, _at_most(_MOVED_CHUNK, lines), lines, _MOVE, first)
        else:
            fields = (
                phase.first_row, phase.rows, _at_most(step.min_chunk_rows, phase.rows),
                _at_most(step.call_rows or step.min_chunk_rows, phase.rows), kernels[step.kernel], first,
            )  # fmt: skip
        runs.append((phase.step, fields))
    return runs, operands


def _ring_of(place: OperandAddress, program: Program) -> RingBuffer | None:
    """Return the buffer between stages in whose first copy an operand lies."""
    if place.base != "arena":
        return None
    return next((ring for ring in program.rings if ring.offset <= place.offset < ring.offset + ring.stride), None)


def _stages(program: Program, core_set: CoreSet) -> str:
    """Return the table of a pipeline's stages; a phase is a step."""
    lines = [f"{{{s.begin}, {s.end}, {stage_plan(s, core_set)}}}," for s in program.stages]
    return _array("const struct engine_stage stage_table[]", lines)


def _functions(
    kernels: Sequence[str], versions: Mapping[str, Sequence[str]], symbols: Mapping[str, str], core_set: CoreSet
) -> str:
    """Return the tables of versions that the selector chooses from; no entry at SLOW_ID, where the engine calls it
    itself."""
    assert SLOW_ID == 0
    count = core_set.version_count
    tables = [", ".join(["0", *(f"(void *){symbols[version]}" for version in versions[k])]) for k in kernels]
    described = (f"{{{c_string(k)}, kernel_versions[{i}], kernel_runs[{i}], 0}}," for i, k in enumerate(kernels))
    return (
        _array(f"void *const kernel_versions[][{count}]", (f"{{{t}}}," for t in tables))
        + f"static uint64_t kernel_runs[{max(1, len(kernels))}][{count}];\n"
        + _array("struct mavcg_function functions[]", described)
    )


def _element_bytes() -> str:
    """Return the table of element sizes in bytes by type code; 1 at 0, which is no code."""
    sizes = dict.fromkeys(range(max(TYPE_CODES.values()) + 1), 1)
    sizes |= {code: DTYPES[name].itemsize for name, code in TYPE_CODES.items()}
    return _array("const uint8_t element_bytes[]", [f"{', '.join(str(size) for size in sizes.values())},"])


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
    return _array(f"const int64_t {which}_dims[]", (f"{d}," for d in dims), zero="0,") + _array(
        f"const mavcg_tensor {which}_table[]", lines
    )


def header_text(program: Program, threads: int = 1) -> str:
    """Return <name>.h for the users of a model library. It is complete in itself; headers of several models may be
    included together."""
    guard = f"MAVCG_MODEL_{api_name(program.name).upper()}_H"
    return (
        f"/* Model {comment(program.name)}. Made by mavcg.\n *\n{tensor_lists(program)} */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{shared_declarations()}\n{model_declarations(program, threads)}\n#endif\n"
    )


def shared_declarations() -> str:
    """Return what the headers of all model libraries declare."""
    return (CSRC / "engine_api.h").read_text()


def model_declarations(program: Program, threads: int) -> str:
    """Return the declarations of a model's own functions. threads: a context's, where its user does not say."""
    name = api_name(program.name)
    default = {0: "as many threads as the library chooses", 1: "one thread"}.get(threads, f"{threads} threads")
    short = "".join(f"#define {name}_{function} {EXPORTED}{name}_{function}\n" for function in _FUNCTIONS)
    filled = {"EXPORTED": EXPORTED + name, "NAME": name, "DEFAULT": default, "SHORT": short}
    return fill_template(_HEADER, filled)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return the template with each @NAME@ replaced."""
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], template)


def tensor_lists(program: Program) -> str:
    """Return lines of a comment that list inputs and outputs."""
    return _list("Inputs", program.inputs) + _list("Outputs", program.outputs)


def _list(what: str, tensors: Sequence[ProgramTensor]) -> str:
    lines = [f" *     {i}  {comment(t.name)}: {t.type}, {t.type.bytes} bytes" for i, t in enumerate(tensors)]
    return "".join(f"{line}\n" for line in [f" * {what}, in this order:", *lines])


_HEADER = """\
#ifdef __cplusplus
extern "C" {
#endif

/* The functions are exported as @EXPORTED@_create and so on, under names that no other library has. The comments
 * below call them @NAME@_create and so on: short names of the same functions, which the end of this header defines. */

typedef struct @NAME@_context @NAME@_context;
typedef mavcg_options @NAME@_options;

/* Every function that returns int returns an enum mavcg_status. */

/* Create a context: all memory that runs need. options: NULL for @DEFAULT@. Several contexts may be used by several
 * threads at once. MAVCG_ERROR_NULL, _OPTION, _CPU or _MEMORY; *context is then NULL. */
int @EXPORTED@_create(const @NAME@_options *options, @NAME@_context **context);

/* Stop its threads and free it. No run of it may be active. NULL is fine. */
void @EXPORTED@_destroy(@NAME@_context *context);

/* Compute the outputs. inputs, outputs: one pointer each, in the order of @NAME@_inputs() and @NAME@_outputs(), to
 * dense row-major arrays; no output shares memory with another array. From any thread; a second run of one context at
 * the same time returns MAVCG_BUSY. Nothing is allocated, but the first run in a process starts the context's threads
 * (MAVCG_ERROR_THREADS). The calling thread's rounding and denormal modes hold on all threads. */
int @EXPORTED@_run(@NAME@_context *context, const void *const *inputs, void *const *outputs);

/* As @NAME@_run; first the sizes that the caller expects, in bytes, are compared with the model's (MAVCG_ERROR_SIZE).
 * */
int @EXPORTED@_run_sized(@NAME@_context *context, const void *const *inputs, const size_t *input_bytes,
    void *const *outputs, const size_t *output_bytes);

/* As @NAME@_run; step_ns gets the nanoseconds of each step of @NAME@_steps(). */
int @EXPORTED@_profile(@NAME@_context *context, const void *const *inputs, void *const *outputs, double *step_ns);

/* Called from another thread: end the active run before its next step, with MAVCG_CANCELLED. Without an active run it
 * has no effect, on later runs neither. */
int @EXPORTED@_cancel(@NAME@_context *context);

/* The number of threads that take part in its runs, the caller's included: at most as many as ever have work. */
int @EXPORTED@_threads(const @NAME@_context *context);

/* Descriptions; count may be NULL. */
const mavcg_tensor *@EXPORTED@_inputs(size_t *count);
const mavcg_tensor *@EXPORTED@_outputs(size_t *count);
const mavcg_step *@EXPORTED@_steps(size_t *count);

/* A status as static text. */
const char *@EXPORTED@_error_text(int status);

/* Where one of these names means something else in your program (sem_destroy of <semaphore.h>), define
 * MAVCG_NO_SHORT_NAMES before this header is included and use the exported names. */
#ifndef MAVCG_NO_SHORT_NAMES
@SHORT@#endif

#ifdef __cplusplus
}
#endif
"""
