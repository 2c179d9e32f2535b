/* Types and macros that all files of the selector share.
 *
 * Tools (clangd, clang-tidy, a test) compile each file alone. For a library the files of a unit are joined into one
 * translation unit (runtime/amalgamation.py), in which all functions but those of mavcg_runtime.h are static. The code
 * needs no libc: it is built for Android without libc's headers, runs before main, and leaves errno unchanged. */
#ifndef MAVCG_INTERNAL_H
#define MAVCG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mavcg_runtime.h"

/* Linkage of functions and data that other files of the unit use: MAVCG_PRIVATE for functions and for definitions of
 * data, MAVCG_PRIVATE_DATA for declarations of data. */
#if defined(MAVCG_AMALGAMATION)
#define MAVCG_PRIVATE static
#define MAVCG_PRIVATE_DATA static
#else
#define MAVCG_PRIVATE __attribute__((visibility("hidden")))
#define MAVCG_PRIVATE_DATA extern __attribute__((visibility("hidden")))
#endif

/* A definition of which the linker keeps one copy. */
#define MAVCG_SHARED __attribute__((weak, visibility("hidden")))
/* A symbol of another library; its address is NULL if no library defines it. */
#define MAVCG_WEAK_IMPORT __attribute__((weak, visibility("default")))
/* A function off the path of dispatched calls. */
#define MAVCG_RARE __attribute__((noinline, cold))

/* The sources of facts that are compiled in: by default the target's own. Tests and the detection library include
 * both. */
#ifndef MAVCG_ARM_SOURCES
#if defined(__aarch64__)
#define MAVCG_ARM_SOURCES 1
#define MAVCG_X86_SOURCES 0
#else
#define MAVCG_ARM_SOURCES 0
#define MAVCG_X86_SOURCES 1
#endif
#endif

/* A unit that includes both reads machines that are not this one, from folders of recorded files. */
#define MAVCG_READS_RECORDS (MAVCG_ARM_SOURCES && MAVCG_X86_SOURCES)

/* The small selector has no settings (MAVCG_CPU_MAP, MAVCG_TRACE), and of an Arm kernel's files reads /proc/cpuinfo
 * alone. */
#if defined(MAVCG_SMALL_SELECTOR)
#define MAVCG_SMALL 1
#else
#define MAVCG_SMALL 0
#endif

#ifndef MAVCG_ROOT
#define MAVCG_ROOT "" /* prefix of /proc and /sys of this machine; tests use folders of their own */
#endif

enum { MAVCG_PATH_BYTES = 1024, MAVCG_NO_CPU = -1 };

/* The source that a CPU's core type was read from; source_text() returns its name. */
enum mavcg_how {
    MAVCG_HOW_UNKNOWN = 0,
    MAVCG_HOW_MAP,
    MAVCG_HOW_SYSFS_MIDR,
    MAVCG_HOW_CPUINFO,
    MAVCG_HOW_MRS,
    MAVCG_HOW_SYSFS_KIND,
    MAVCG_HOW_CPUID,
};

/* A rule of the generated table: a core and a version that it may run. An Arm core is recognised by implementer, part
 * and range of variants of MIDR_EL1. A core has a rule for each version that it may run, the best first; one whose
 * needs the machine does not meet is passed over. */
struct mavcg_midr_rule {
    uint8_t implementer, variant_min, variant_max, id;
    uint16_t part;
};

/* The identity of an x86 processor as in CPUID and /proc/cpuinfo; family and model include their extended fields. */
enum { X86_ANY_VENDOR = 0, X86_INTEL = 1, X86_AMD = 2, X86_OTHER = 3 };
enum x86_kind { X86_NO_KIND = 0, X86_CORE = 1, X86_ATOM = 2 };

struct x86_identity {
    uint8_t vendor;
    uint16_t family, model;
};

/* A rule for an x86 core. X86_ANY_VENDOR: only the kind is compared. */
struct mavcg_x86_rule {
    uint8_t vendor, kind, id;
    uint16_t family, model_min, model_max;
};

/* 32-bit words of bits that show extensions of the instruction set. x86: as in x86_needs.h. Arm: AT_HWCAP and AT_HWCAP2,
 * each low half first; the rest is 0. */
enum { MAVCG_NEED_WORDS = 7 };

/* A core set: the table of its cores, and the state of its selection. The selector's functions take it as an argument.
 * A library with its own selector has only one set, which the compiler propagates as a constant; the shared selector
 * serves the sets of many libraries. abi must stay the first field: it is the only one that an older shared selector
 * reads. */
struct mavcg_set {
    uint32_t abi;      /* MAVCG_ABI of the mavcg version that built the set */
    uint32_t versions; /* length of a function's table of versions */
    const struct mavcg_midr_rule *midr_rules;
    const struct mavcg_x86_rule *x86_rules;
    const uint32_t (*needs)[MAVCG_NEED_WORDS]; /* of each version, from MAVCG_FIRST_CORE on */
    const char *core_names;
    uint8_t *core_of_cpu;
    uint64_t *rseq_offset;
    struct mavcg_state *state;
};

/* The machine whose core types are detected. */
struct mavcg_machine {
    const char *root; /* prefix of /sys and /proc: "" for this machine, a folder of recorded files in tests */
    bool arm, x86;    /* kinds of sources to read */
    bool live;        /* the machine is this one: its registers may be read too */
};

/* The members, as constants in a library: it runs on one machine. */
#if MAVCG_READS_RECORDS
#define MAVCG_IS_LIVE(machine) ((machine)->live)
#define MAVCG_ROOT_OF(machine) ((machine)->root)
#else
#define MAVCG_IS_LIVE(machine) ((void)(machine), true)
#define MAVCG_ROOT_OF(machine) ((void)(machine), MAVCG_ROOT)
#endif

/* A table of core types by CPU. The first answer for a CPU is kept. how and seen may be NULL. */
struct mavcg_table {
    uint8_t *id;  /* [MAVCG_CPUS] */
    uint8_t *how; /* [MAVCG_CPUS], enum mavcg_how; of recorded machines */
    uint32_t
        *seen;   /* [MAVCG_CPUS], the MIDR_EL1 or x86 family << 16 | model that was read, or 0; of recorded machines */
    bool report; /* print each answer to stderr */
#if defined(MAVCG_SHARED_SELECTOR)
    const struct mavcg_set *set;
#endif
};

enum { TRACE_RUNS = 1, TRACE_CPUS = 2 };

/* The state of a core set, one copy per link; all zero before the selector has run. Its layout is part of MAVCG_ABI. */
struct mavcg_state {
    uint32_t ready;                 /* the table has been filled */
    uint32_t only_core;             /* the core id of all CPUs, if they are all alike */
    uint32_t cpu_denied;            /* the kernel does not report which CPU a thread runs on */
    uint32_t trace;                 /* bit mask of TRACE_ bits */
    uint32_t complained;            /* a fault in an environment variable has been reported */
    uint32_t printed;               /* the counts of runs have been printed */
    struct mavcg_function *counted; /* list of the functions with counted runs */
    uint64_t owner;                 /* process that the counts belong to, see trace.c */
};

#endif
