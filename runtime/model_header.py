"""Write the C header of a model library, for its users; names in its C code, hidden symbols too."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.graph import DTYPES
from mavcg.graph.counts import Dimension, bounds_words, in_elements, product_of, text_of
from mavcg.specs.model_program import Program, ProgramState, ProgramTensor
from mavcg.text.safe_text import c_identifier, comment

EXPORTED = "mavcg_model_"  # prefix of all names that a model library exports
_SHORT_OF_LIBC = {"pthread", "thrd", "timer"}  # pthread_create, thrd_create, timer_create: often used beside a model


# Headers that C programs and libc's own headers include (C23, 7; POSIX.1-2024, 14; glibc). A header of the same name
# beside the program, in a folder given with -I, would be included instead.
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


def api_name(name: str) -> str:
    """Return the name of a model's C functions and header, a C identifier: resnet50-v1 -> resnet50_v1.

    It begins with model_ if the name begins with a digit or with a prefix of mavcg's own names, or if header or
    functions would have names of the C library.
    """
    return f"model_{c_identifier(name, 'model')}" if renaming_reason(name) else c_identifier(name, "model")


def renaming_reason(name: str) -> str:
    """Return why a model's functions and header have names that begin with model_; "" if they do not."""
    word = c_identifier(name, "model")
    if word[0].isdigit():
        return "a name in C cannot begin with a digit"
    if word == "mavcg" or word.startswith(("mavcg_", "MAVCG_")):
        return "names that begin with mavcg are mavcg's own"
    if word in _SHORT_OF_LIBC:
        return f"{word}_create is a function of the C library"
    return f"{word}.h is a header of the C library" if word in _HEADERS else ""


def constants_symbol(program: Program) -> str:
    """Return the hidden symbol of a model's packed constants."""
    return f"mavcg_constants_{api_name(program.name)}"


def network_symbol(name: str) -> str:
    """Return the hidden symbol of a network's engine in an application's library."""
    return f"mavcg_network_{api_name(name)}"


CSRC = Path(__file__).parent / "csrc"
_FUNCTIONS = (
    "create",
    "destroy",
    "run",
    "run_sized",
    "profile",
    "cancel",
    "threads",
    "inputs",
    "outputs",
    "steps",
    "error_text",
    "states",
    "reset",
    "state_size",
    "state_save",
    "state_restore",
)
_SHAPE_FUNCTIONS = ("set_shape", "context_inputs", "context_outputs")  # of a model with a bounded dimension


def header_text(program: Program, threads: int = 1) -> str:
    """Return the text of <name>.h for the users of a model library.

    It needs no other header; headers of several models may be included together.
    """
    guard = f"MAVCG_MODEL_{api_name(program.name).upper()}_H"
    return (
        f"/* Model {comment(program.name)}. Made by mavcg.\n *\n{tensor_lists(program)} */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{shared_declarations()}\n{model_declarations(program, threads)}\n#endif\n"
    )


def shared_declarations() -> str:
    """Return the declarations that the headers of all model libraries have."""
    return (CSRC / "engine_api.h").read_text()


def model_declarations(program: Program, threads: int) -> str:
    """Return the declarations of a model's own functions. threads: default of a context."""
    name = api_name(program.name)
    default = {0: "as many threads as the library chooses", 1: "one thread"}.get(threads, f"{threads} threads")
    functions: tuple[str, ...] = (*_FUNCTIONS, *_SHAPE_FUNCTIONS) if program.dimensions else _FUNCTIONS
    functions += ("context_outputs",) if program.counted else ()
    short = "".join(f"#define {name}_{function} {EXPORTED}{name}_{function}\n" for function in functions)
    filled = {"EXPORTED": EXPORTED + name, "NAME": name, "DEFAULT": default, "SHORT": short, "SHAPES": ""}
    if program.dimensions:
        filled["SHAPES"] = fill_template(_SHAPES, filled)
    if program.counted:
        filled["SHAPES"] += fill_template(_COUNTED, filled)
    return fill_template(_HEADER, filled)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return the template with each @NAME@ replaced."""
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], template)


def tensor_lists(program: Program) -> str:
    """Return the lines of a comment that lists inputs, outputs, and, where there are any, states and dimensions."""
    title = "States, which stay in a context between runs"
    states = _list(title, program.states, program.dimensions) if program.states else ""
    bounded = "".join(_dimension_line(each, program) for each in program.dimensions)
    lists = _list("Inputs", program.inputs, program.dimensions) + _list("Outputs", program.outputs, program.dimensions)
    return lists + states + (f" *\n{bounded}" if bounded else "")


def _dimension_line(dimension: Dimension, program: Program) -> str:
    """Return the line of a comment on a dimension: its bounds, and who tells its length."""
    grown = program.grown_lengths.get(dimension.name)
    bounds = f"{comment(dimension.name)} is {bounds_words(*dimension.bounds)}"
    if grown is None:
        return f" * {bounds}, in each run anew.\n"
    return f" * {bounds}: kept by the context, {text_of(grown, comment)} after a run.\n"


def _list(title: str, tensors: Sequence[ProgramTensor | ProgramState], dimensions: Sequence[Dimension] = ()) -> str:
    lines = [f" *     {i}  {comment(t.name)}: {_type_text(t, dimensions)}" for i, t in enumerate(tensors)]
    return "".join(f"{line}\n" for line in [f" * {title}, in this order:", *lines])


def _type_text(tensor: ProgramTensor | ProgramState, dimensions: Sequence[Dimension]) -> str:
    """Return a tensor's type and size, with bounded dimensions by their names: f32[1,tokens,8], 32 * tokens bytes."""
    if isinstance(tensor, ProgramTensor) and tensor.counted_axis is not None:
        dims = ",".join(f"up to {n}" if i == tensor.counted_axis else str(n) for i, n in enumerate(tensor.type.shape))
        return f"{tensor.type.dtype}[{dims}], memory for {tensor.type.bytes} bytes"
    axes = tensor.axes
    if not axes:
        return f"{tensor.type}, {tensor.type.bytes} bytes"
    dims = ",".join(text_of(in_elements(axis, dimensions), comment).replace(" * ", "*") for axis in axes)
    size = in_elements(product_of(DTYPES[tensor.type.dtype].itemsize, *axes), dimensions)
    return f"{tensor.type.dtype}[{dims}], {text_of(size, comment)} bytes"


_SHAPES = """\

/* Set the lengths of the dimensions that each run has anew, listed above, for the runs that follow, from the shapes of
 * all inputs; dims: for each input its dimensions. A new context has the longest ones. MAVCG_ERROR_SIZE for a length
 * out of bounds or off the step, inputs that disagree, or another fixed length than the model's; MAVCG_BUSY during a
 * run. All lengths then stay. Those of states that grow are the context's: at first the least ones, after each run
 * what it left. Where they are out of bounds, runs are MAVCG_ERROR_SIZE until @NAME@_reset(). */
int @EXPORTED@_set_shape(@NAME@_context *context, const int64_t *const *dims);

/* As @NAME@_inputs() and @NAME@_outputs(), which have the longest lengths, with those of the context: the sizes of the
 * arrays that @NAME@_run() reads and writes. The context's own memory, which @NAME@_set_shape() changes. */
const mavcg_tensor *@EXPORTED@_context_inputs(const @NAME@_context *context);
const mavcg_tensor *@EXPORTED@_context_outputs(const @NAME@_context *context);
"""

_COUNTED = """\

/* As @NAME@_outputs(), with the lengths that the last run of the context has decided: of outputs with `up to` above. A
 * run leaves dense arrays of these dimensions and bytes. A run that does not return MAVCG_OK changes none of them;
 * before the first one they are the longest, for which every array has memory, also for @NAME@_run_sized(). The
 * context's own memory. */
const mavcg_tensor *@EXPORTED@_context_outputs(const @NAME@_context *context);
"""

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

/* A model with states keeps them in each context: a run reads what the run before it left, the first one their initial
 * values. A run that begins and does not return MAVCG_OK, such as a cancelled one, leaves them undefined; further runs
 * then return MAVCG_ERROR_STATE until @NAME@_reset or @NAME@_state_restore. Without states these functions do nothing.
 * MAVCG_BUSY during a run of the context. */

/* Set the states to their initial values, also what the present lengths do not reach. States that grow, as caches to
 * which each run adds its tokens, have their least length then. */
int @EXPORTED@_reset(@NAME@_context *context);

/* Copy the states, in their longest shapes, to a buffer of @NAME@_state_size() bytes, which another context, process or
 * build of the same model may restore. bytes: of the buffer (MAVCG_ERROR_SIZE). MAVCG_ERROR_STATE where they are
 * undefined, and for a buffer that no model with such states has saved. The buffer need not be aligned. */
size_t @EXPORTED@_state_size(const @NAME@_context *context);
int @EXPORTED@_state_save(@NAME@_context *context, void *buffer, size_t bytes);
int @EXPORTED@_state_restore(@NAME@_context *context, const void *buffer, size_t bytes);

/* Descriptions; count may be NULL. */
const mavcg_tensor *@EXPORTED@_inputs(size_t *count);
const mavcg_tensor *@EXPORTED@_outputs(size_t *count);
const mavcg_tensor *@EXPORTED@_states(size_t *count);
const mavcg_step *@EXPORTED@_steps(size_t *count);
@SHAPES@
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
