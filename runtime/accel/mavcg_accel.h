/* The host side of an accelerator with an instruction set: loads a program of `mavcg accel build`, drives the device
 * through its registers, and runs the network's CPU parts, which are mavcg model libraries, before and after it.
 *
 * The device is behind mavcg_accel_device: the simulator of mavcg_accel_simulator.h is one, a driver another.
 * A program may be shared by threads; a context, and a device, is used by one thread at a time. */
#ifndef MAVCG_ACCEL_H
#define MAVCG_ACCEL_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mavcg_accel_status {
    MAVCG_ACCEL_OK = 0,
    MAVCG_ACCEL_BAD_FILE = -1,     /* no program, damaged, or of another version */
    MAVCG_ACCEL_BAD_ARGUMENT = -2, /* a pointer that must be there is NULL, or there is no such input or output */
    MAVCG_ACCEL_OTHER_DEVICE = -3, /* the program was built for a target with other sizes */
    MAVCG_ACCEL_NO_MEMORY = -4,
    MAVCG_ACCEL_DEVICE_ERROR = -5, /* the device stopped at an instruction that it cannot execute */
    MAVCG_ACCEL_TIMEOUT = -6,      /* the device did not finish the job in time */
    MAVCG_ACCEL_CPU_PART = -7      /* a CPU part's library is missing, is of another program, or failed */
};

/* Registers, 32 bits each, by byte offset. */
enum mavcg_accel_register {
    MAVCG_ACCEL_ID = 0x00,            /* read: MAVCG_ACCEL_ID_VALUE */
    MAVCG_ACCEL_VERSION = 0x04,       /* read: version of the instruction set */
    MAVCG_ACCEL_CORES = 0x08,         /* read: cores, each with memories of its own */
    MAVCG_ACCEL_WORD = 0x0c,          /* read: bytes of a word of feature memory (W) */
    MAVCG_ACCEL_OC_LANES = 0x10,      /* read: output channels of the array (O) */
    MAVCG_ACCEL_ROW_LANES = 0x14,     /* read: rows of the array (R) */
    MAVCG_ACCEL_FEATURE_WORDS = 0x18, /* read: words of a core's feature memory */
    MAVCG_ACCEL_WEIGHT_WORDS = 0x1c,  /* read: words of a core's weight memory */
    MAVCG_ACCEL_BANKS = 0x20,         /* read: banks of feature memory */
    MAVCG_ACCEL_ROUNDING = 0x24,      /* read: of shifts; 0 half_up, 1 half_away, 2 floor */
    MAVCG_ACCEL_CODE = 0x40,          /* write: the job's code, device address; 0x44 the upper half */
    MAVCG_ACCEL_CODE_BYTES = 0x48,    /* write */
    MAVCG_ACCEL_PARAMETERS = 0x50,    /* write: its parameters segment, device address; 0x54 the upper half */
    MAVCG_ACCEL_PARAMETER_BYTES = 0x58,
    MAVCG_ACCEL_FEATURES = 0x60, /* write: its features segment, device address; 0x64 the upper half */
    MAVCG_ACCEL_FEATURE_BYTES = 0x68,
    MAVCG_ACCEL_CORE = 0x6c,        /* write: the core that executes it */
    MAVCG_ACCEL_SUBMIT = 0x70,      /* write: anything puts the job into the core's queue */
    MAVCG_ACCEL_QUEUE_FREE = 0x74,  /* read: jobs that the queue of CORE takes now */
    MAVCG_ACCEL_SUBMITTED = 0x78,   /* read: jobs that CORE's queue has taken since the start, modulo 2^32 */
    MAVCG_ACCEL_FINISHED = 0x7c,    /* read: those of them that have ended, in order */
    MAVCG_ACCEL_ERROR = 0x80,       /* read: 0, or 1 + the number of the instruction at which the last one stopped */
    MAVCG_ACCEL_ACKNOWLEDGE = 0x84, /* write: clears ERROR of CORE, which goes on with its queue, and the interrupt */
    MAVCG_ACCEL_CYCLES = 0x88 /* read: cycles that CORE's last ended job took; 0x8c the upper half; 0: not counted */
};
#define MAVCG_ACCEL_ID_VALUE 0x4741564du /* "MVAG" */

/* Memory that both the processor and the device reach. */
typedef struct mavcg_accel_memory {
    void *bytes;      /* the processor's address */
    uint64_t address; /* the device's address */
    size_t size;
} mavcg_accel_memory;

enum mavcg_accel_direction { MAVCG_ACCEL_TO_DEVICE = 0, MAVCG_ACCEL_FROM_DEVICE = 1 };

/* A device, or what stands for one. Functions return 0 on success and take `context` first. */
typedef struct mavcg_accel_device {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    int (*allocate)(void *context, size_t size, mavcg_accel_memory *memory);
    void (*release)(void *context, mavcg_accel_memory *memory);
    /* Make bytes that one side wrote visible to the other, where caches do not. */
    void (*sync)(void *context, const mavcg_accel_memory *memory, enum mavcg_accel_direction direction);
    /* Wait for the interrupt of any core; 0 when it came, other when the time is over. */
    int (*wait)(void *context, uint32_t milliseconds);
    /* Text on the last error, for messages; may be NULL. */
    const char *(*message)(void *context);
} mavcg_accel_device;

typedef struct mavcg_accel_program mavcg_accel_program;
typedef struct mavcg_accel_context mavcg_accel_context;

/* An input or output of the whole network. f32, dense; dims as in the model's file. */
typedef struct mavcg_accel_tensor {
    const char *name;
    int32_t rank;
    const int64_t *dims; /* [rank] */
    size_t elements;
    int32_t radix; /* position of the binary point of the int8 on the device; INT32_MIN where it stays f32 */
} mavcg_accel_tensor;

/* Read a program's file and the libraries of its CPU parts, which lie beside it, and put code and parameters into the
 * device's memory. device: must outlive the program. message: NULL, or where a text on a failure goes (at most 256
 * bytes with the end). */
int mavcg_accel_open(const char *path, const mavcg_accel_device *device, mavcg_accel_program **program, char *message);
void mavcg_accel_close(mavcg_accel_program *program);

int mavcg_accel_input_count(const mavcg_accel_program *program);
int mavcg_accel_output_count(const mavcg_accel_program *program);
/* NULL where there is none of this number. */
const mavcg_accel_tensor *mavcg_accel_input(const mavcg_accel_program *program, int index);
const mavcg_accel_tensor *mavcg_accel_output(const mavcg_accel_program *program, int index);

/* A features segment on one core (0 to cores - 1), with all buffers of a run. threads: of the CPU parts; 0: theirs. */
int mavcg_accel_create(mavcg_accel_program *program, uint32_t core, int threads, mavcg_accel_context **context);
void mavcg_accel_destroy(mavcg_accel_context *context);

/* One image. inputs, outputs: f32, in the order of mavcg_accel_input and mavcg_accel_output. */
int mavcg_accel_run(mavcg_accel_context *context, const float *const *inputs, float *const *outputs);

/* The same in two halves, so that the device computes while the processor does something else: submit quantises the
 * inputs, runs the CPU part before and gives the job to the device; finish waits for it, runs the CPU part after and
 * writes the outputs. */
int mavcg_accel_submit(mavcg_accel_context *context, const float *const *inputs);
int mavcg_accel_finish(mavcg_accel_context *context, float *const *outputs);

/* Cycles that the device counted for the last run that finish brought to its end; 0 where it counts none. */
uint64_t mavcg_accel_cycles(const mavcg_accel_context *context);

/* Milliseconds that finish waits for the device; 10,000 unless set. */
void mavcg_accel_set_timeout(mavcg_accel_context *context, uint32_t milliseconds);

/* A text on the last failure of this context. */
const char *mavcg_accel_message(const mavcg_accel_context *context);
/* What a status means, whatever the context. */
const char *mavcg_accel_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif
