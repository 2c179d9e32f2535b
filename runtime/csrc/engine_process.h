/* The process that worker threads and a run belong to.
 *
 * A forked child has a copy of every context and none of the parent's threads. The state that says that threads exist, or
 * that a run is active, therefore lies in a page that the kernel clears in the child (MADV_WIPEONFORK, Linux 4.14),
 * however it was made: by fork, by clone without libc's handlers, or by clone into a PID namespace where its number is
 * the parent's. A child that shares its parent's memory (vfork) shares threads and page alike. Where the kernel does not
 * clear the page, processes are distinguished by number. */
#ifndef MAVCG_ENGINE_PROCESS_H
#define MAVCG_ENGINE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* The state of a context that its process alone has; all zero: no threads, no run. */
struct process_state {
    uint64_t run;     /* the process whose thread is in run, 0 for none, and RUN_CANCELLED */
    uint32_t workers; /* the process whose worker threads are running; 0: none are */
    uint32_t running; /* their number */
};

/* New state; NULL: no memory. *cleared: a child finds it all zero. */
MAVCG_PRIVATE struct process_state *create_process_state(bool *cleared);
MAVCG_PRIVATE void free_process_state(struct process_state *state);

/* The calling process, as the state names it. */
MAVCG_PRIVATE uint32_t this_process(const struct mavcg_context *context);

/* Make this process's run the context's only one; false where a run of this process has it. What a thread of another
 * process held is free here. */
MAVCG_PRIVATE bool acquire_context(struct mavcg_context *context, uint32_t process);
MAVCG_PRIVATE void release_context(struct mavcg_context *context);

/* End the active run before its next step; without one it has no effect, on a later run neither. */
MAVCG_PRIVATE void cancel_run(struct mavcg_context *context);
MAVCG_PRIVATE bool is_cancelled(const struct mavcg_context *context);

#endif
