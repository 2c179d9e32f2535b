"""Write an application as C: the tables that csrc/application.c is compiled with, and the header for its users.

It is pure: values in, text out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.runtime.c_arrays import static_array
from mavcg.runtime.model_header import (
    CSRC,
    api_name,
    fill_template,
    model_declarations,
    network_symbol,
    shared_declarations,
    tensor_lists,
)
from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_string, comment

EXPORTED = "mavcg_app_"  # prefix of all names that an application exports beside those of its networks
MAX_NETWORKS = 32  # bits of conflicts_with


@dataclass(frozen=True)
class PlacedNetwork:
    """A network's program with its place in the application's memory.

    arena_offset: offset of its buffers, in bytes. scratch_offset: offset in the scratch memory of a thread, in bytes.
    conflicts_with: indices of the networks that share memory with it, including itself.
    """

    program: Program
    arena_offset: int
    scratch_offset: int
    conflicts_with: frozenset[int]


@dataclass(frozen=True)
class ApplicationProgram:
    """Networks in one memory.

    arena_bytes: size of all buffers. scratch_bytes: scratch memory for one thread of each network.
    """

    name: str
    networks: tuple[PlacedNetwork, ...]
    arena_bytes: int
    scratch_bytes: int


def check_names(name: str, networks: Sequence[str]) -> None:
    """Raise MavcgError if the C names of the application and its networks collide, or there are too many networks."""
    if len(networks) > MAX_NETWORKS:
        raise MavcgError(
            f"{name}: {len(networks)} networks; a library holds at most {MAX_NETWORKS}: make several libraries"
        )
    own, seen = api_name(name), dict[str, str]()
    for network in networks:
        word = api_name(network)
        if word in seen:
            raise MavcgError(f"networks '{seen[word]}' and '{network}': both are {word} in C; rename one")
        if word == own or word.startswith(f"{own}_"):
            raise MavcgError(
                f"network '{network}': its functions in C, {word}_.., could be those of the application, {own}_..; "
                "rename it, or name another output"
            )
        seen[word] = network


def application_tables(application: ApplicationProgram) -> str:
    """Return the text of mavcg_application_tables.h."""
    symbols = [network_symbol(network.program.name) for network in application.networks]
    hidden = '__attribute__((visibility("hidden")))'
    return "".join(
        [
            f"/* Application {comment(application.name)}. Made by mavcg. */\n",
            f'#define APPLICATION_API "{EXPORTED}{api_name(application.name)}"\n',
            f"#define APPLICATION_NAME {c_string(application.name)}\n",
            f"enum {{ NETWORKS = {len(symbols)} }};\n",
            f"#define APPLICATION_ARENA_BYTES {application.arena_bytes}ull\n",
            f"#define APPLICATION_SCRATCH_BYTES {application.scratch_bytes}ull\n",
            *(
                f'extern const struct application_network network_{i} __asm__("{symbol}_entry") {hidden};\n'
                f'extern const mavcg_model_table model_{i} __asm__("{symbol}") {hidden};\n'
                for i, symbol in enumerate(symbols)
            ),
            static_array(
                "const struct application_network *const network_table[NETWORKS]",
                (f"&network_{i}," for i in range(len(symbols))),
            ),
            static_array(
                "const mavcg_app_network placed_networks[NETWORKS]",
                (
                    f"{{&model_{i}, {network.arena_offset}ull, {sum(1 << n for n in network.conflicts_with):#x}, "
                    f"{len(network.program.stages)}}},"
                    for i, network in enumerate(application.networks)
                ),
            ),
            static_array(
                "const uint64_t scratch_offsets[NETWORKS]",
                (f"{network.scratch_offset}ull," for network in application.networks),
            ),
        ]
    )


def application_header(application: ApplicationProgram, threads: int = 1) -> str:
    """Return the text of <name>.h: the API of each network and of the application. threads: default of a context."""
    name = api_name(application.name)
    guard = f"MAVCG_APPLICATION_{name.upper()}_H"
    lists = "".join(
        f" * Network {comment(network.program.name)}.\n{tensor_lists(network.program)}"
        for network in application.networks
    )
    words = [api_name(network.program.name) for network in application.networks]
    own = fill_template(
        _HEADER,
        {
            "EXPORTED": EXPORTED + name,
            "NAME": name,
            "CONTEXTS": "".join(
                f"static inline {word}_context *{name}_context_of_{word}({name}_application *application) {{\n"
                f"    return ({word}_context *){EXPORTED}{name}_context(application, {number});\n}}\n"
                for number, word in enumerate(words)
            ),
            "PIPELINES": "".join(
                fill_template(_PIPELINE, {"EXPORTED": EXPORTED + name, "NAME": name, "WORD": word, "N": str(number)})
                for number, (word, network) in enumerate(zip(words, application.networks, strict=True))
                if network.program.stages
            ),
        },
    )
    table = re.sub(r'^#include "engine_api.h"\n\n', "", (CSRC / "application_api.h").read_text(), flags=re.MULTILINE)
    models = "\n".join(model_declarations(network.program, threads) for network in application.networks)
    return (
        f"/* Application {comment(application.name)}. Made by mavcg.\n *\n{lists} */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{shared_declarations()}\n{table}\n{models}\n{own}\n#endif\n"
    )


_PIPELINE = """\
static inline int @NAME@_push_@WORD@(@NAME@_application *application, const void *const *inputs,
    void *const *outputs, void *frame, int32_t timeout_ms) {
    return @EXPORTED@_push(application, @N@, inputs, outputs, frame, timeout_ms);
}
static inline int @NAME@_pop_@WORD@(@NAME@_application *application, void **frame, int32_t timeout_ms) {
    return @EXPORTED@_pop(application, @N@, frame, timeout_ms);
}
static inline int @NAME@_cancel_frames_of_@WORD@(@NAME@_application *application) {
    return @EXPORTED@_cancel_frames(application, @N@);
}
"""

_HEADER = """\
#ifdef __cplusplus
extern "C" {
#endif

/* All networks in one memory. The functions are exported as @EXPORTED@_create and so on; the end of this header
 * defines short names. */

typedef struct @NAME@_application @NAME@_application;

/* Create the memory, and a context in it for each network, all with these options. NULL: the defaults. The status is
 * that of the networks' create; *application is then NULL. */
int @EXPORTED@_create(const mavcg_options *options, void **application);

/* Destroy the contexts and free the memory. No run may be active. NULL is fine. */
void @EXPORTED@_destroy(void *application);

/* The context of a network, by its number; NULL for a number that is not there. It belongs to the application: use it
 * with the network's functions, but do not destroy it. Networks that share memory take turns: while one is in a run, a
 * run of another returns MAVCG_BUSY and does nothing. A context that a network's own create makes has memory of its
 * own. */
void *@EXPORTED@_context(void *application, uint32_t network);

/* As @EXPORTED@_create; places: of stages of pipelines, in place of the CPUs that the library chooses for them: those
 * of its prediction where the process may use them, else an equal share of the CPUs that it may use. */
int @EXPORTED@_create_placed(const mavcg_options *options, const mavcg_stage_place *places, uint32_t place_count,
    void **application);

/* A network built with partitions is a pipeline: its stages, each on CPUs and threads of its own, compute several
 * frames at the same time. Push a frame: pointers to its inputs and outputs, as for the network's run, which stay the
 * pipeline's until the frame is popped; frame: any pointer, which pop gives back. Frames are popped in the order in
 * which they were pushed; pop returns the frame's status. timeout_ms: how long push waits for room, or pop for a
 * completed frame, before it returns MAVCG_AGAIN; 0: not at all, below 0: for ever. A pipeline takes two frames a stage
 * before one has to be popped. A frame of a network with bounded dimensions has the lengths that the network's context
 * has at its push: set them between pushes. While it has frames to complete, a run of the network, or of one that
 * shares its memory, returns MAVCG_BUSY, and a first push during such a run does. From any threads.
 * MAVCG_ERROR_NULL for a network that is no pipeline; statuses of run. */
int @EXPORTED@_push(void *application, uint32_t network, const void *const *inputs, void *const *outputs, void *frame,
    int32_t timeout_ms);
int @EXPORTED@_pop(void *application, uint32_t network, void **frame, int32_t timeout_ms);

/* End the frames that are not completed: each is popped with MAVCG_CANCELLED, its outputs undefined. */
int @EXPORTED@_cancel_frames(void *application, uint32_t network);

/* The number of threads of a stage; MAVCG_ERROR_NULL for one that is not there. */
int @EXPORTED@_stage_threads(void *application, uint32_t network, uint32_t stage);

/* Run networks as periodic jobs under fixed priorities, in the calling thread and those of the contexts: at each
 * boundary between two steps of a preemptible network, more urgent jobs run before it continues. Returns after all jobs
 * that are released within the service's duration_ns, or after stop_service, from any thread, which lets no further job
 * begin. No other run of these networks may be active. MAVCG_BUSY if a service is active; MAVCG_ERROR_OPTION if one
 * network may preempt another that shares its memory, for equal priorities, and for values out of range; a status of
 * run, if a job fails, which ends the service. */
int @EXPORTED@_serve(void *application, mavcg_service *service);
int @EXPORTED@_stop_service(void *application);

/* As @EXPORTED@_serve, with networks that an accelerator computes in segments: their numbers follow those of the
 * library's networks. Their parts on this processor are jobs' sections, between which an accelerator computes while
 * other jobs run; inputs and outputs of such a network belong to all of its jobs, of which up to `slots` are under way
 * at a time. Jobs that are under way when the service is stopped run to their ends. */
int @EXPORTED@_serve_accelerated(void *application, mavcg_service *service, const mavcg_accelerated *accelerated,
    uint32_t accelerated_count);

static inline int @NAME@_create_application(const mavcg_options *options, @NAME@_application **application) {
    void *created;
    int status = @EXPORTED@_create(options, application ? &created : (void **)0);
    if (application) *application = (@NAME@_application *)created;
    return status;
}
static inline void @NAME@_destroy_application(@NAME@_application *application) { @EXPORTED@_destroy(application); }
static inline int @NAME@_serve_application(@NAME@_application *application, mavcg_service *service) {
    return @EXPORTED@_serve(application, service);
}
static inline int @NAME@_serve_accelerated(@NAME@_application *application, mavcg_service *service,
    const mavcg_accelerated *accelerated, uint32_t accelerated_count) {
    return @EXPORTED@_serve_accelerated(application, service, accelerated, accelerated_count);
}
static inline int @NAME@_stop_service(@NAME@_application *application) { return @EXPORTED@_stop_service(application); }
@CONTEXTS@@PIPELINES@
#ifdef __cplusplus
}
#endif
"""
