/* The interface of the testbench: a program's segments, the figures of its DDR memory, and what became of it. */
#ifndef MAVCG_RTL_TESTBENCH_H
#define MAVCG_RTL_TESTBENCH_H 1

#include <stdint.h>

/* rate, port_rate: bytes a cycle of the DDR memory, and of each port at most, with 16 fraction bits. latency: its
 * cycles. burst_bytes: a run takes whole bursts. port_bytes: most bytes that a port of the core takes in a cycle.
 * most_cycles: where to give up. */
typedef struct mavcg_rtl_job {
    const uint8_t *code;
    const uint8_t *parameters;
    uint8_t *features;
    uint64_t code_bytes;
    uint64_t parameter_bytes;
    uint64_t feature_bytes;
    uint64_t rate;
    uint64_t port_rate;
    uint64_t latency;
    uint64_t most_cycles;
    uint32_t burst_bytes;
    uint32_t port_bytes;
} mavcg_rtl_job;

/* How a run ended. */
enum { MAVCG_RTL_FINISHED = 0, MAVCG_RTL_UNKNOWN = 1, MAVCG_RTL_OUTSIDE = 2, MAVCG_RTL_CYCLES = 3 };

typedef struct mavcg_rtl_result {
    uint64_t cycles;
    int32_t end;
} mavcg_rtl_result;

#ifdef __cplusplus
extern "C" {
#endif
int mavcg_rtl_run(const mavcg_rtl_job *job, mavcg_rtl_result *result);
#ifdef __cplusplus
}
#endif

#endif
