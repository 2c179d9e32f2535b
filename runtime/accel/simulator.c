/* The simulated device: registers, a queue for each core, and the execution of programs in program order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

enum { QUEUE_LENGTH = 4 };

struct core {
    struct memories memories;
    mavcg_accel_job queue[QUEUE_LENGTH];
    uint32_t queued, submitted, finished, error;
};

struct simulator {
    mavcg_accel_sizes sizes;
    struct core *cores;
    uint32_t core; /* the register CORE */
    uint64_t most_operations;
    uint32_t pending[(MAVCG_ACCEL_ACKNOWLEDGE + 4) / 4];
    char message[MESSAGE_BYTES];
};

static unsigned char *address_at(const struct simulator *simulator, uint32_t offset) {
    const uint32_t *words = simulator->pending + offset / 4;
    return (unsigned char *)(uintptr_t)(words[0] | (uint64_t)words[1] << 32);
}

/* Run a job. Returns 0, or 1 + the number of the instruction that stopped it. */
static uint32_t run_job(struct simulator *simulator, struct core *core, const mavcg_accel_job *job) {
    struct execution execution;
    begin_job(&execution, &core->memories, job);
    while (!execution.ended)
        if (!execute_next(&execution)) {
            snprintf(simulator->message, MESSAGE_BYTES, "%s%s%.220s", execution.mnemonic,
                     *execution.mnemonic ? ": " : "", core->memories.fault);
            return execution.number + 1;
        }
    return 0;
}

static void run_queue(struct simulator *simulator, struct core *core) {
    while (core->queued && !core->error) {
        mavcg_accel_job job = core->queue[0];
        memmove(core->queue, core->queue + 1, --core->queued * sizeof *core->queue);
        core->error = run_job(simulator, core, &job);
        core->finished++;
    }
}

static void submit(struct simulator *simulator, struct core *core) {
    if (core->queued == QUEUE_LENGTH) return; /* ignored: the host must check QUEUE_FREE */
    const uint32_t *pending = simulator->pending;
    core->queue[core->queued++] = (mavcg_accel_job){.code = address_at(simulator, MAVCG_ACCEL_CODE),
                                                    .parameters = address_at(simulator, MAVCG_ACCEL_PARAMETERS),
                                                    .features = address_at(simulator, MAVCG_ACCEL_FEATURES),
                                                    .code_bytes = pending[MAVCG_ACCEL_CODE_BYTES / 4],
                                                    .parameter_bytes = pending[MAVCG_ACCEL_PARAMETER_BYTES / 4],
                                                    .feature_bytes = pending[MAVCG_ACCEL_FEATURE_BYTES / 4],
                                                    .most_operations = simulator->most_operations};
    core->submitted++;
    run_queue(simulator, core);
}

static uint32_t read_register(void *context, uint32_t offset) {
    const struct simulator *simulator = context;
    const struct core *core = &simulator->cores[simulator->core];
    switch (offset) {
    case MAVCG_ACCEL_ID: return MAVCG_ACCEL_ID_VALUE;
    case MAVCG_ACCEL_VERSION: return ISA_VERSION;
    case MAVCG_ACCEL_CORES: return simulator->sizes.cores;
    case MAVCG_ACCEL_WORD: return simulator->sizes.word;
    case MAVCG_ACCEL_OC_LANES: return simulator->sizes.oc_lanes;
    case MAVCG_ACCEL_ROW_LANES: return simulator->sizes.row_lanes;
    case MAVCG_ACCEL_FEATURE_WORDS: return simulator->sizes.feature_words;
    case MAVCG_ACCEL_WEIGHT_WORDS: return simulator->sizes.weight_words;
    case MAVCG_ACCEL_BANKS: return simulator->sizes.banks;
    case MAVCG_ACCEL_ROUNDING: return simulator->sizes.rounding;
    case MAVCG_ACCEL_CORE: return simulator->core;
    case MAVCG_ACCEL_QUEUE_FREE: return QUEUE_LENGTH - core->queued;
    case MAVCG_ACCEL_SUBMITTED: return core->submitted;
    case MAVCG_ACCEL_FINISHED: return core->finished;
    case MAVCG_ACCEL_ERROR: return core->error;
    default: return 0;
    }
}

static void write_register(void *context, uint32_t offset, uint32_t value) {
    struct simulator *simulator = context;
    struct core *core = &simulator->cores[simulator->core];
    if (offset == MAVCG_ACCEL_CORE) {
        if (value < simulator->sizes.cores) simulator->core = value;
    } else if (offset == MAVCG_ACCEL_SUBMIT) {
        submit(simulator, core);
    } else if (offset == MAVCG_ACCEL_ACKNOWLEDGE) {
        core->error = 0;
        run_queue(simulator, core);
    } else if (offset >= MAVCG_ACCEL_CODE && offset <= MAVCG_ACCEL_FEATURE_BYTES) {
        simulator->pending[offset / 4] = value;
    }
}

static int allocate(void *context, size_t size, mavcg_accel_memory *memory) {
    (void)context;
    memory->bytes = calloc(size, 1);
    memory->address = (uint64_t)(uintptr_t)memory->bytes;
    memory->size = memory->bytes ? size : 0;
    return memory->bytes ? 0 : -1;
}

static void release(void *context, mavcg_accel_memory *memory) {
    (void)context;
    free(memory->bytes);
    memset(memory, 0, sizeof *memory);
}

static void sync_nothing(void *context, const mavcg_accel_memory *memory, enum mavcg_accel_direction direction) {
    (void)context;
    (void)memory;
    (void)direction;
}

/* Nothing to wait for: a job ends within the write to SUBMIT, or waits behind a job with an error. */
static int wait_for_nothing(void *context, uint32_t milliseconds) {
    (void)context;
    (void)milliseconds;
    return -1;
}

static const char *last_message(void *context) { return ((struct simulator *)context)->message; }

int mavcg_accel_simulator_open(const mavcg_accel_sizes *sizes, mavcg_accel_device *device) {
    if (!sizes || !device || !are_possible(sizes)) return MAVCG_ACCEL_BAD_ARGUMENT;
    memset(device, 0, sizeof *device);
    struct simulator *made = calloc(1, sizeof *made);
    if (!made) return MAVCG_ACCEL_NO_MEMORY;
    made->sizes = *sizes;
    *device = (mavcg_accel_device){made,    read_register, write_register,   allocate,
                                   release, sync_nothing,  wait_for_nothing, last_message};
    made->cores = calloc(sizes->cores, sizeof *made->cores);
    bool whole = made->cores != NULL;
    for (uint32_t i = 0; whole && i < sizes->cores; i++) whole = make_memories(&made->cores[i].memories, sizes);
    if (whole) return MAVCG_ACCEL_OK;
    mavcg_accel_simulator_close(device);
    return MAVCG_ACCEL_NO_MEMORY;
}

int mavcg_accel_simulator_for(const char *path, mavcg_accel_device *device, char *message) {
    if (message) *message = 0;
    if (!path || !device)
        return fail(message, MAVCG_ACCEL_BAD_ARGUMENT, "mavcg_accel_simulator_for: path or device is NULL");
    struct image image;
    int status = read_image(path, &image, message);
    if (!status) {
        status = mavcg_accel_simulator_open(&image.sizes, device);
        if (status == MAVCG_ACCEL_BAD_ARGUMENT)
            status = fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: no device has the sizes that it was built for", path);
    }
    release_image(&image);
    return status;
}

int mavcg_accel_simulator_limit(mavcg_accel_device *device, uint64_t operations) {
    if (!device || !device->context) return MAVCG_ACCEL_BAD_ARGUMENT;
    ((struct simulator *)device->context)->most_operations = operations;
    return MAVCG_ACCEL_OK;
}

void mavcg_accel_simulator_close(mavcg_accel_device *device) {
    struct simulator *simulator = device ? device->context : NULL;
    if (!simulator) return;
    for (uint32_t i = 0; simulator->cores && i < simulator->sizes.cores; i++)
        release_memories(&simulator->cores[i].memories);
    free(simulator->cores);
    free(simulator);
    memset(device, 0, sizeof *device);
}
