/* The process that worker threads and a run belong to.
 *
 * A forked child has a copy of every context but none of its parent's threads. The state that records running threads
 * and an active run therefore lies in a page that the kernel clears in the child (MADV_WIPEONFORK, Linux 4.14). This
 * works however the child was made: by fork, by clone without libc's handlers, or by clone into a PID namespace in
 * which its process number equals its parent's. A child that shares its parent's memory (vfork) shares both threads and
 * page. If the kernel does not clear the page, processes are distinguished by number. */
#ifndef MAVCG_ENGINE_PROCESS_H
#define MAVCG_ENGINE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* Per-process state of a context. All zero: no threads, no run. */
struct process_state {
    uint64_t run;     /* the process whose thread is in run (0: none), and RUN_CANCELLED */
    uint32_t workers; /* the process that started the running workers; 0: none are running */
    uint32_t running; /* number of running workers */
};

/* Allocate the state; returns NULL without memory. *cleared: whether a forked child finds it all zero. */
MAVCG_PRIVATE struct process_state *create_process_state(bool *cleared);
MAVCG_PRIVATE void free_process_state(struct process_state *state);

/* Return the identity of the calling process, in the form that the state uses. */
MAVCG_PRIVATE uint32_t this_process(const struct mavcg_context *context);

/* Acquire the context for a run of this process; false if another run of this process has it. A context acquired by
 * another process counts as free in this one. */
MAVCG_PRIVATE bool acquire_context(struct mavcg_context *context, uint32_t process);
MAVCG_PRIVATE void release_context(struct mavcg_context *context);

/* End the active run before its next step. Without an active run there is no effect, on later runs neither. */
MAVCG_PRIVATE void cancel_run(struct mavcg_context *context);
MAVCG_PRIVATE bool is_cancelled(const struct mavcg_context *context);

#endif
