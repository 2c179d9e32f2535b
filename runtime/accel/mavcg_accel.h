/* The host side of an accelerator with an instruction set. It loads a program of `mavcg accel build`, controls the
 * device through its registers, and runs the network's CPU parts, which are mavcg model libraries, before, between and
 * after the segments that the device computes, each a job.
 *
 * The device is accessed through mavcg_accel_device; both the simulator of mavcg_accel_simulator.h and a driver
 * implement it. Threads may share a program; only one thread at a time may use a context or a device. */
#ifndef MAVCG_ACCEL_H
#define MAVCG_ACCEL_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mavcg_accel_status {
    MAVCG_ACCEL_OK = 0,
    MAVCG_ACCEL_BAD_FILE = -1,     /* not a program, damaged, or of another version */
    MAVCG_ACCEL_BAD_ARGUMENT = -2, /* a required pointer is NULL, or there is no such input or output */
    MAVCG_ACCEL_OTHER_DEVICE = -3, /* the program was built for a target with other sizes */
    MAVCG_ACCEL_NO_MEMORY = -4,
    MAVCG_ACCEL_DEVICE_ERROR = -5, /* the device stopped at an instruction that it cannot or may not execute */
    MAVCG_ACCEL_TIMEOUT = -6,      /* the device did not finish the job before the timeout */
    MAVCG_ACCEL_CPU_PART = -7      /* a CPU part's library is missing, belongs to another program, or failed */
};

/* Registers, 32 bits each, by byte offset. */
enum mavcg_accel_register {
    MAVCG_ACCEL_ID = 0x00,            /* read: MAVCG_ACCEL_ID_VALUE */
    MAVCG_ACCEL_VERSION = 0x04,       /* read: version of the instruction set */
    MAVCG_ACCEL_CORES = 0x08,         /* read: number of cores; each has its own memories */
    MAVCG_ACCEL_WORD = 0x0c,          /* read: bytes per word of feature memory (W) */
    MAVCG_ACCEL_OC_LANES = 0x10,      /* read: output channels of the array (O) */
    MAVCG_ACCEL_ROW_LANES = 0x14,     /* read: rows of the array (R) */
    MAVCG_ACCEL_FEATURE_WORDS = 0x18, /* read: words of feature memory per core */
    MAVCG_ACCEL_WEIGHT_WORDS = 0x1c,  /* read: words of weight memory per core */
    MAVCG_ACCEL_BANKS = 0x20,         /* read: banks of feature memory */
    MAVCG_ACCEL_ROUNDING = 0x24,      /* read: rounding of shifts; 0 half_up, 1 half_away, 2 floor */
    MAVCG_ACCEL_CODE = 0x40,          /* write: device address of the job's code; 0x44 the upper half */
    MAVCG_ACCEL_CODE_BYTES = 0x48,    /* write */
    MAVCG_ACCEL_PARAMETERS = 0x50,    /* write: device address of its parameters segment; 0x54 the upper half */
    MAVCG_ACCEL_PARAMETER_BYTES = 0x58,
    MAVCG_ACCEL_FEATURES = 0x60, /* write: device address of its features segment; 0x64 the upper half */
    MAVCG_ACCEL_FEATURE_BYTES = 0x68,
    MAVCG_ACCEL_CORE = 0x6c,        /* write: the core that executes the job */
    MAVCG_ACCEL_SUBMIT = 0x70,      /* write: any value puts the job into the core's queue */
    MAVCG_ACCEL_QUEUE_FREE = 0x74,  /* read: free entries in the queue of CORE */
    MAVCG_ACCEL_SUBMITTED = 0x78,   /* read: jobs that CORE's queue has accepted since the start, modulo 2^32 */
    MAVCG_ACCEL_FINISHED = 0x7c,    /* read: number of those jobs that have ended; they end in order */
    MAVCG_ACCEL_ERROR = 0x80,       /* read: 0, or 1 + the number of the instruction at which the last job stopped */
    MAVCG_ACCEL_ACKNOWLEDGE = 0x84, /* write: clears the interrupt and ERROR of CORE, which resumes its queue */
    MAVCG_ACCEL_CYCLES = 0x88       /* read: cycles of CORE's last ended job; 0x8c the upper half; 0: not counted */
};
#define MAVCG_ACCEL_ID_VALUE 0x4741564du /* "MVAG" */

/* Memory that both the processor and the device can access. */
typedef struct mavcg_accel_memory {
    void *bytes;      /* address for the processor */
    uint64_t address; /* address for the device */
    size_t size;
} mavcg_accel_memory;

enum mavcg_accel_direction { MAVCG_ACCEL_TO_DEVICE = 0, MAVCG_ACCEL_FROM_DEVICE = 1 };

/* Interface of a device, real or simulated. Functions of type int return 0 on success; `context` is passed as the first
 * argument. */
typedef struct mavcg_accel_device {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    int (*allocate)(void *context, size_t size, mavcg_accel_memory *memory);
    void (*release)(void *context, mavcg_accel_memory *memory);
    /* Make bytes that one side wrote visible to the other, if caches are not coherent. */
    void (*sync)(void *context, const mavcg_accel_memory *memory, enum mavcg_accel_direction direction);
    /* Wait for the interrupt of any core. Returns 0 when it arrives, another value on a timeout. */
    int (*wait)(void *context, uint32_t milliseconds);
    /* Return a text about the last error, for messages. The function pointer may be NULL. */
    const char *(*message)(void *context);
} mavcg_accel_device;

typedef struct mavcg_accel_program mavcg_accel_program;
typedef struct mavcg_accel_context mavcg_accel_context;

/* An input or output of the whole network: f32, dense, with the dims of the model's file. */
typedef struct mavcg_accel_tensor {
    const char *name;
    int32_t rank;
    const int64_t *dims; /* [rank] */
    size_t elements;
    int32_t radix; /* position of the binary point of the device's int8; INT32_MIN if it stays f32 */
    float scale;   /* of an 8-bit file: q stands for (q - zero) * scale; 0: q * 2^-radix */
    int32_t zero;
} mavcg_accel_tensor;

/* Read a program's file and the libraries of its CPU parts, which lie in the same folder, and put code and parameters
 * into the device's memory. device: must outlive the program. message: NULL, or a buffer that receives a text on
 * failure (at most 256 bytes, NUL included). */
int mavcg_accel_open(const char *path, const mavcg_accel_device *device, mavcg_accel_program **program, char *message);
void mavcg_accel_close(mavcg_accel_program *program);

int mavcg_accel_input_count(const mavcg_accel_program *program);
int mavcg_accel_output_count(const mavcg_accel_program *program);
/* Return the description of an input or output; NULL if the index is out of range. */
const mavcg_accel_tensor *mavcg_accel_input(const mavcg_accel_program *program, int index);
const mavcg_accel_tensor *mavcg_accel_output(const mavcg_accel_program *program, int index);

/* Return the number of segments, each a job of the device. */
int mavcg_accel_segment_count(const mavcg_accel_program *program);
/* Return the time that the device takes for a segment of a run, of an image or a batch, in ns, by the simulated cycles
 * that `mavcg accel build` wrote into the file and the target's frequency; 0: not known, or there is no such segment. */
uint64_t mavcg_accel_segment_ns(const mavcg_accel_program *program, int segment);

/* Create a context: a features segment on one core (0 to cores - 1), with all buffers of a run. threads: number for the
 * CPU parts; 0: their libraries choose. */
int mavcg_accel_create(mavcg_accel_program *program, uint32_t core, int threads, mavcg_accel_context **context);
void mavcg_accel_destroy(mavcg_accel_context *context);

/* Run the network on an image, or on a batch of as many as the program was built for. inputs, outputs: f32 arrays, in
 * the order and of the sizes of mavcg_accel_input and mavcg_accel_output, whose shapes count all images. */
int mavcg_accel_run(mavcg_accel_context *context, const float *const *inputs, float *const *outputs);

/* Run the network in steps, so that the processor is free while the device computes. submit quantises the inputs, runs
 * the first CPU part and submits the first segment's job to the device. advance waits for that job; if a further segment
 * follows, it runs the CPU part before that and submits its job. more: receives 1 if a job is under way again, 0 if all
 * have ended. finish advances as often as needed, runs the last CPU part and writes the outputs.
 *
 * A thread that advances several contexts of a core in turn overlaps the CPU parts of each frame with the segments of
 * the others, since the jobs of all contexts share the core's queue. */
int mavcg_accel_submit(mavcg_accel_context *context, const float *const *inputs);
int mavcg_accel_advance(mavcg_accel_context *context, int *more);
int mavcg_accel_finish(mavcg_accel_context *context, float *const *outputs);

/* Return the cycles that the device counted for all segments of the last run that finish completed; 0 if it does not
 * count cycles. */
uint64_t mavcg_accel_cycles(const mavcg_accel_context *context);

/* Set the time for which finish waits for the device, in milliseconds; the default is 10,000. */
void mavcg_accel_set_timeout(mavcg_accel_context *context, uint32_t milliseconds);

/* Return a text about the last failure of this context. */
const char *mavcg_accel_message(const mavcg_accel_context *context);
/* Return the general meaning of a status. */
const char *mavcg_accel_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif
