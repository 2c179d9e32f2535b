/* Contexts: write quantised inputs into the device's memory, run a job, read its results, and run the CPU parts before
 * and after it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { DEFAULT_TIMEOUT_MS = 10000 };

/* Buffers of a value, dense in the order N, H, W, C: int8 if it has a radix position; f32 if a CPU part computes it, or
 * if it has no radix position. */
struct buffer {
    int8_t *integers;
    float *reals;
};

struct mavcg_accel_context {
    mavcg_accel_program *program;
    uint32_t core, timeout_ms;
    bool submitted;
    uint32_t ticket; /* number of the job: it has ended when FINISHED reaches it */
    uint64_t cycles; /* cycles of the last job that ended */
    mavcg_accel_memory features;
    struct buffer *buffers; /* one for each value */
    void *before, *after;   /* contexts of the CPU parts */
    const void **part_inputs;
    void **part_outputs;
    char message[MESSAGE_BYTES];
};

/* Compute floor(real * 2^radix + 1/2), saturated, as the compiler quantises. NaN becomes 0. */
static int8_t quantise(float real, int radix) {
    double scaled = floor(ldexp((double)real, radix) + 0.5);
    if (scaled > INT8_MAX) return INT8_MAX;
    if (scaled < INT8_MIN) return INT8_MIN;
    return isnan(scaled) ? 0 : (int8_t)scaled;
}

static bool make_buffers(mavcg_accel_context *context) {
    const struct image *image = &context->program->image;
    context->buffers = calloc(image->value_count + 1u, sizeof *context->buffers);
    context->part_inputs = calloc(image->value_count + 1u, sizeof *context->part_inputs);
    context->part_outputs = calloc(image->value_count + 1u, sizeof *context->part_outputs);
    if (!context->buffers || !context->part_inputs || !context->part_outputs) return false;
    for (uint32_t i = 0; i < image->value_count; i++) {
        size_t elements = image->values[i].tensor.elements;
        if (image->values[i].tensor.radix != NO_RADIX && !(context->buffers[i].integers = malloc(elements)))
            return false;
    }
    const struct value_list *lists[] = {&image->before.outputs, &image->after.outputs, &image->inputs};
    for (int list = 0; list < 3; list++)
        for (uint32_t i = 0; i < lists[list]->count; i++) {
            uint32_t index = lists[list]->indices[i];
            struct buffer *buffer = &context->buffers[index];
            if (list == 2 && image->values[index].tensor.radix != NO_RADIX) continue;
            if (!buffer->reals && !(buffer->reals = malloc(image->values[index].tensor.elements * sizeof(float))))
                return false;
        }
    return true;
}

static int create_part(const struct loaded_part *part, int threads, void **made) {
    mavcg_options options = {.threads = threads};
    return part->table && part->table->create(&options, made) ? MAVCG_ACCEL_CPU_PART : MAVCG_ACCEL_OK;
}

int mavcg_accel_create(mavcg_accel_program *program, uint32_t core, int threads, mavcg_accel_context **context) {
    if (!program || !context || threads < 0) return MAVCG_ACCEL_BAD_ARGUMENT;
    *context = NULL;
    const mavcg_accel_device *device = program->device;
    if (core >= device->read(device->context, MAVCG_ACCEL_CORES)) return MAVCG_ACCEL_BAD_ARGUMENT;
    mavcg_accel_context *made = calloc(1, sizeof *made);
    if (!made) return MAVCG_ACCEL_NO_MEMORY;
    made->program = program;
    made->core = core;
    made->timeout_ms = DEFAULT_TIMEOUT_MS;
    size_t bytes = (size_t)program->image.feature_bytes;
    int status = make_buffers(made) ? MAVCG_ACCEL_OK : MAVCG_ACCEL_NO_MEMORY;
    if (!status && device->allocate(device->context, bytes ? bytes : 1, &made->features))
        status = MAVCG_ACCEL_NO_MEMORY;
    if (!status) status = create_part(&program->before, threads, &made->before);
    if (!status) status = create_part(&program->after, threads, &made->after);
    if (status) mavcg_accel_destroy(made);
    else *context = made;
    return status;
}

void mavcg_accel_destroy(mavcg_accel_context *context) {
    if (!context) return;
    mavcg_accel_program *program = context->program;
    const mavcg_accel_device *device = program->device;
    /* Wait for the job first: until it ends, the device may write into the features segment. */
    if (context->submitted) (void)device->wait(device->context, context->timeout_ms);
    if (context->before) program->before.table->destroy(context->before);
    if (context->after) program->after.table->destroy(context->after);
    if (context->features.bytes) device->release(device->context, &context->features);
    for (uint32_t i = 0; context->buffers && i < program->image.value_count; i++) {
        free(context->buffers[i].integers);
        free(context->buffers[i].reals);
    }
    free(context->buffers);
    free(context->part_inputs);
    free(context->part_outputs);
    free(context);
}

/* Return the index, in the model's own order of dimensions, of the element with dense index `at`. nchw: of the model's
 * order. */
static size_t model_index(const struct value *value, bool nchw, size_t at) {
    if (!nchw) return at;
    size_t channels = value->channels, plane = (size_t)value->dims[2] * (size_t)value->dims[3];
    size_t channel = at % channels, pixel = at / channels;
    return (pixel / plane * channels + channel) * plane + pixel % plane;
}

static void take_input(mavcg_accel_context *context, uint32_t index, const float *input) {
    const struct value *value = &context->program->image.values[index];
    struct buffer *buffer = &context->buffers[index];
    for (size_t i = 0; i < value->tensor.elements; i++) {
        float real = input[model_index(value, value->nchw, i)];
        if (buffer->integers) buffer->integers[i] = quantise(real, value->tensor.radix);
        if (buffer->reals) buffer->reals[i] = real;
    }
}

static int run_part(mavcg_accel_context *context, const struct part *part, const struct loaded_part *loaded,
                    void *state) {
    if (!loaded->table) return MAVCG_ACCEL_OK;
    const struct image *image = &context->program->image;
    for (uint32_t i = 0; i < part->inputs.count; i++) {
        const struct buffer *buffer = &context->buffers[part->inputs.indices[i]];
        context->part_inputs[i] = buffer->integers ? (const void *)buffer->integers : buffer->reals;
    }
    for (uint32_t i = 0; i < part->outputs.count; i++)
        context->part_outputs[i] = context->buffers[part->outputs.indices[i]].reals;
    int status = loaded->table->run(state, context->part_inputs, context->part_outputs);
    if (status)
        return fail(context->message, MAVCG_ACCEL_CPU_PART, "CPU part %.60s: %.150s", part->name,
                    loaded->table->error_text(status));
    for (uint32_t i = 0; i < part->outputs.count; i++) {
        uint32_t index = part->outputs.indices[i];
        const struct value *value = &image->values[index];
        struct buffer *buffer = &context->buffers[index];
        for (size_t e = 0; buffer->integers && e < value->tensor.elements; e++)
            buffer->integers[e] = quantise(buffer->reals[e], value->tensor.radix);
    }
    return MAVCG_ACCEL_OK;
}

static void copy_stored(mavcg_accel_context *context, uint32_t index, bool to_device) {
    const struct value *value = &context->program->image.values[index];
    int8_t *dense = context->buffers[index].integers;
    int8_t *stored = (int8_t *)context->features.bytes + value->offset;
    for (uint32_t pixel = 0; pixel < value->pixels; pixel++, dense += value->channels, stored += value->pixel)
        if (to_device) memcpy(stored, dense, value->channels);
        else memcpy(dense, stored, value->channels);
}

static void write_address(const mavcg_accel_device *device, uint32_t offset, const mavcg_accel_memory *memory,
                          size_t bytes) {
    device->write(device->context, offset, (uint32_t)memory->address);
    device->write(device->context, offset + 4, (uint32_t)(memory->address >> 32));
    device->write(device->context, offset + 8, (uint32_t)bytes);
}

static int give_job(mavcg_accel_context *context) {
    const mavcg_accel_program *program = context->program;
    const mavcg_accel_device *device = program->device;
    device->write(device->context, MAVCG_ACCEL_CORE, context->core);
    if (!device->read(device->context, MAVCG_ACCEL_QUEUE_FREE))
        return fail(context->message, MAVCG_ACCEL_DEVICE_ERROR, "the queue of core %u is full; finish a job first",
                    (unsigned)context->core);
    write_address(device, MAVCG_ACCEL_CODE, &program->code, program->image.code_bytes);
    write_address(device, MAVCG_ACCEL_PARAMETERS, &program->parameters, program->image.parameter_bytes);
    write_address(device, MAVCG_ACCEL_FEATURES, &context->features, (size_t)program->image.feature_bytes);
    device->write(device->context, MAVCG_ACCEL_SUBMIT, 1);
    context->ticket = device->read(device->context, MAVCG_ACCEL_SUBMITTED);
    context->submitted = true;
    return MAVCG_ACCEL_OK;
}

int mavcg_accel_submit(mavcg_accel_context *context, const float *const *inputs) {
    if (!context || !inputs) return MAVCG_ACCEL_BAD_ARGUMENT;
    const struct image *image = &context->program->image;
    for (uint32_t i = 0; i < image->inputs.count; i++)
        if (!inputs[i]) return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "input %u is NULL", (unsigned)i);
    if (context->submitted)
        return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "a job is under way; call mavcg_accel_finish first");
    for (uint32_t i = 0; i < image->inputs.count; i++) take_input(context, image->inputs.indices[i], inputs[i]);
    int status = run_part(context, &image->before, &context->program->before, context->before);
    if (status) return status;
    for (uint32_t i = 0; i < image->loaded.count; i++) copy_stored(context, image->loaded.indices[i], true);
    const mavcg_accel_device *device = context->program->device;
    device->sync(device->context, &context->features, MAVCG_ACCEL_TO_DEVICE);
    return give_job(context);
}

/* Return the status of the job, or of an earlier job at which its core has stopped. ended: whether the job has
 * ended. */
static int job_status(mavcg_accel_context *context, bool ended) {
    const mavcg_accel_device *device = context->program->device;
    uint32_t stopped = device->read(device->context, MAVCG_ACCEL_ERROR);
    if (stopped && !ended)
        return fail(context->message, MAVCG_ACCEL_DEVICE_ERROR,
                    "core %u stopped at an earlier job; call mavcg_accel_finish for that one first",
                    (unsigned)context->core);
    if (stopped) {
        const char *text = device->message ? device->message(device->context) : "";
        fail(context->message, 0, "the device stopped at instruction %u%s%.180s", (unsigned)stopped - 1,
             *text ? ": " : "", text);
    }
    if (ended) {
        context->cycles = device->read(device->context, MAVCG_ACCEL_CYCLES) |
                          (uint64_t)device->read(device->context, MAVCG_ACCEL_CYCLES + 4) << 32;
        device->write(device->context, MAVCG_ACCEL_ACKNOWLEDGE, 1);
        context->submitted = false;
    }
    return stopped ? MAVCG_ACCEL_DEVICE_ERROR : MAVCG_ACCEL_OK;
}

static int wait_for_job(mavcg_accel_context *context) {
    const mavcg_accel_device *device = context->program->device;
    for (;;) {
        device->write(device->context, MAVCG_ACCEL_CORE, context->core);
        bool ended = (int32_t)(device->read(device->context, MAVCG_ACCEL_FINISHED) - context->ticket) >= 0;
        int status = job_status(context, ended);
        if (status || ended) return status;
        if (device->wait(device->context, context->timeout_ms))
            return fail(context->message, MAVCG_ACCEL_TIMEOUT, "the device did not finish within %u ms",
                        (unsigned)context->timeout_ms);
    }
}

static void give_output(mavcg_accel_context *context, const struct output *output, float *made) {
    const struct value *value = &context->program->image.values[output->value];
    const struct buffer *buffer = &context->buffers[output->value];
    for (size_t i = 0; i < value->tensor.elements; i++)
        made[model_index(value, output->nchw, i)] = buffer->integers
                                                        ? ldexpf((float)buffer->integers[i], -value->tensor.radix)
                                                        : buffer->reals[i];
}

int mavcg_accel_finish(mavcg_accel_context *context, float *const *outputs) {
    if (!context || !outputs) return MAVCG_ACCEL_BAD_ARGUMENT;
    const struct image *image = &context->program->image;
    for (uint32_t i = 0; i < image->output_count; i++)
        if (!outputs[i]) return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "output %u is NULL", (unsigned)i);
    if (!context->submitted)
        return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "no job is under way; call mavcg_accel_submit first");
    int status = wait_for_job(context);
    if (status) return status;
    const mavcg_accel_device *device = context->program->device;
    device->sync(device->context, &context->features, MAVCG_ACCEL_FROM_DEVICE);
    for (uint32_t i = 0; i < image->saved.count; i++) copy_stored(context, image->saved.indices[i], false);
    status = run_part(context, &image->after, &context->program->after, context->after);
    if (status) return status;
    for (uint32_t i = 0; i < image->output_count; i++) give_output(context, &image->outputs[i], outputs[i]);
    return MAVCG_ACCEL_OK;
}

int mavcg_accel_run(mavcg_accel_context *context, const float *const *inputs, float *const *outputs) {
    int status = mavcg_accel_submit(context, inputs);
    return status ? status : mavcg_accel_finish(context, outputs);
}

uint64_t mavcg_accel_cycles(const mavcg_accel_context *context) { return context ? context->cycles : 0; }

void mavcg_accel_set_timeout(mavcg_accel_context *context, uint32_t milliseconds) {
    if (context) context->timeout_ms = milliseconds;
}

const char *mavcg_accel_message(const mavcg_accel_context *context) { return context ? context->message : ""; }
