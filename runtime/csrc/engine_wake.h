/* Waking another thread on a CPU that is not the caller's.
 *
 * Linux wakes a thread on an idle CPU if it finds one; but on a virtual x86 machine it takes idle CPUs for ones that the
 * host has given to others (available_idle_cpu and vcpu_is_preempted in kernel/sched). Then the thread waits behind the
 * caller until CPUs are balanced, for 10 ms. */
#ifndef MAVCG_ENGINE_WAKE_H
#define MAVCG_ENGINE_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

MAVCG_PRIVATE int32_t this_thread(void); /* the system's number of the calling thread */
MAVCG_PRIVATE int32_t this_cpu(void);    /* -1 if a sandbox hides it */

/* Return the number of CPUs of a virtual x86 machine; 0 on any other. Reads a file of the system. */
MAVCG_PRIVATE uint32_t virtual_cpus(void);

/* Restrict a thread to the other CPUs than this one, if it may run on all of the machine's `cpus`. Returns true if it
 * is restricted: allow_all_cpus ends that. (The mask of a thread that may run on fewer CPUs could not be restored: it
 * does not say which of them the program asked for, and which a cpuset leaves for now.) */
MAVCG_PRIVATE bool keep_off_cpu(int32_t thread, uint32_t cpu, uint32_t cpus);
MAVCG_PRIVATE void allow_all_cpus(int32_t thread);

#endif
