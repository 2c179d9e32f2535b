/* What the files of the runtime share. All of it is one translation unit (runtime.c), so that everything but the
 * few symbols of mavcg_runtime.h is static. No libc is needed: the code must build for Android without its headers,
 * run before main, and leave errno alone. */
#ifndef MAVCG_INTERNAL_H
#define MAVCG_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "mavcg_runtime.h"

/* One copy a link, whoever brings it. */
#define MAVCG_SHARED __attribute__((weak, visibility("hidden")))
/* Another library's symbol, NULL where that library has none. */
#define MAVCG_IF_THERE __attribute__((weak, visibility("default")))
/* Not part of the way of a call. */
#define MAVCG_RARE __attribute__((noinline, cold))
/* The detection library (detect.c) uses only a part of the functions. */
#define MAVCG_STATIC static __attribute__((unused))

/* Which kinds of sources are compiled in: the target's own, or what a test or the detection library asks for. */
#ifndef MAVCG_ARM_SOURCES
#if defined(__aarch64__)
#define MAVCG_ARM_SOURCES 1
#define MAVCG_X86_SOURCES 0
#else
#define MAVCG_ARM_SOURCES 0
#define MAVCG_X86_SOURCES 1
#endif
#endif

enum { MAVCG_PATH_BYTES = 1024, MAVCG_NO_CPU = -1 };

/* How a CPU's core type was found; the order and the words are those of runtime/binding.py. */
enum mavcg_how {
    MAVCG_HOW_UNKNOWN = 0,
    MAVCG_HOW_MAP,
    MAVCG_HOW_SYSFS_MIDR,
    MAVCG_HOW_CPUINFO,
    MAVCG_HOW_MRS,
    MAVCG_HOW_SYSFS_KIND,
    MAVCG_HOW_CPUID,
};

/* What recognises a core: MIDR_EL1's implementer, part and a range of variants; and what the kernel must say that it
 * has (AT_HWCAP) where its version may use more than its kind is known for. From the generated table. */
struct mavcg_midr_rule {
    uint8_t implementer, variant_min, variant_max, id;
    uint16_t part;
    uint32_t hwcap;
};

/* An x86 processor as CPUID and /proc/cpuinfo name it; family and model with their extended fields. */
enum { X86_ANY_VENDOR = 0, X86_INTEL = 1, X86_AMD = 2, X86_OTHER = 3 };
enum x86_kind { X86_NO_KIND = 0, X86_CORE = 1, X86_ATOM = 2 };

struct x86_identity {
    uint8_t vendor;
    uint16_t family, model;
};

/* What recognises a core there. X86_ANY_VENDOR: the kind alone does. From the generated table. */
struct mavcg_x86_rule {
    uint8_t vendor, kind, id;
    uint16_t family, model_min, model_max;
};

enum { X86_WORDS = 7 };

/* Everything of one core set: what is known of its cores, and the state of its selection. The selector's functions take
 * it as an argument: a library with a selector of its own has one set, which the compiler folds in; the shared selector
 * serves the sets of many libraries. abi comes first and stays there: an older shared selector reads it alone. */
struct mavcg_set {
    uint32_t abi;      /* MAVCG_ABI of whoever made it */
    uint32_t versions; /* length of a function's table */
    const struct mavcg_midr_rule *midr_rules;
    const struct mavcg_x86_rule *x86_rules;
    const uint32_t (*x86_needs)[X86_WORDS];
    const char *core_names;
    uint8_t *core_of_cpu;
    uint64_t *rseq_offset;
    struct mavcg_state *state;
};

#if defined(MAVCG_SHARED_SELECTOR)
#define MAVCG_SET_OF(table) ((table)->set)
#else
#define MAVCG_SET_OF(table) ((void)(table), &core_set) /* the only one, so that it is folded in */
#endif

/* The machine to look at. live: it is the one we run on, so that its registers may be read too. */
struct mavcg_machine {
    const char *root; /* before /sys and /proc: "" here, a folder of recorded files at a desk */
    int arm, x86;     /* which kinds of sources to look at */
    int live;
};

/* Where answers go; the first answer for a CPU stays. how and seen may be NULL. say: print each answer. */
struct mavcg_table {
    uint8_t *id;    /* [MAVCG_CPUS] */
    uint8_t *how;   /* [MAVCG_CPUS], enum mavcg_how */
    uint32_t *seen; /* [MAVCG_CPUS], the MIDR_EL1 or the x86 family << 16 | model that was read, or 0 */
    int say;
#if defined(MAVCG_SHARED_SELECTOR)
    const struct mavcg_set *set;
#endif
};

enum { TRACE_RUNS = 1, TRACE_CPUS = 2 };

/* One a core set and link; all zero before anything has run. */
struct mavcg_state {
    uint32_t ready;                 /* the table has been filled */
    uint32_t only_core;             /* the core id of every CPU, where they are all alike */
    uint32_t cpu_denied;            /* the kernel does not say which CPU we run on */
    uint32_t trace;                 /* TRACE_ bits */
    uint32_t complained;            /* a fault of the environment has been told */
    uint32_t printed;               /* the runs have been printed */
    struct mavcg_function *counted; /* list of the functions that have counted runs */
    uint64_t owner;                 /* process that the counts belong to, see trace.c */
};

#endif
