/* Contexts: write quantised inputs into the device's memory, run the segments' jobs, read their results, and run the CPU
 * parts before, between and after them. */
#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "program.h"

enum { DEFAULT_TIMEOUT_MS = 10000 };

struct mavcg_accel_context {
    mavcg_accel_program *program;
    uint32_t core, timeout_ms;
    bool submitted;   /* a job is under way */
    bool computed;    /* the last segment has ended, and finish was not called yet */
    uint32_t segment; /* the segment whose job is under way, or ended last */
    uint32_t ticket;  /* number of the job: it has ended when FINISHED reaches it */
    uint64_t cycles;  /* cycles of the run's jobs that have ended */
    mavcg_accel_memory features;
    struct buffer *buffers; /* one for each value */
    void **parts;           /* contexts of the CPU parts */
    const void **part_inputs;
    void **part_outputs;
    char message[MESSAGE_BYTES];
};

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
    uint32_t values = program->image.value_count + 1u;
    made->buffers = make_buffers(&program->image);
    made->part_inputs = calloc(values, sizeof *made->part_inputs);
    made->part_outputs = calloc(values, sizeof *made->part_outputs);
    bool whole = made->buffers && made->part_inputs && made->part_outputs;
    int status = whole ? MAVCG_ACCEL_OK : MAVCG_ACCEL_NO_MEMORY;
    if (!status && device->allocate(device->context, bytes ? bytes : 1, &made->features))
        status = MAVCG_ACCEL_NO_MEMORY;
    uint32_t parts = program->image.segment_count + 1u;
    if (!status && !(made->parts = calloc(parts, sizeof *made->parts))) status = MAVCG_ACCEL_NO_MEMORY;
    for (uint32_t i = 0; !status && i < parts; i++) status = create_part(&program->parts[i], threads, &made->parts[i]);
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
    for (uint32_t i = 0; context->parts && i <= program->image.segment_count; i++)
        if (context->parts[i]) program->parts[i].table->destroy(context->parts[i]);
    free(context->parts);
    if (context->features.bytes) device->release(device->context, &context->features);
    release_buffers(&program->image, context->buffers);
    free(context->part_inputs);
    free(context->part_outputs);
    free(context);
}

/* Run the CPU part before a segment, or after the last. */
static int run_part(mavcg_accel_context *context, uint32_t number) {
    const struct image *image = &context->program->image;
    const struct part *part = &image->parts[number];
    const struct loaded_part *loaded = &context->program->parts[number];
    if (!loaded->table) return MAVCG_ACCEL_OK;
    for (uint32_t i = 0; i < part->inputs.count; i++) {
        const struct buffer *buffer = &context->buffers[part->inputs.indices[i]];
        context->part_inputs[i] = buffer->integers ? (const void *)buffer->integers : buffer->reals;
    }
    for (uint32_t i = 0; i < part->outputs.count; i++)
        context->part_outputs[i] = context->buffers[part->outputs.indices[i]].reals;
    int status = loaded->table->run(context->parts[number], context->part_inputs, context->part_outputs);
    if (status)
        return fail(context->message, MAVCG_ACCEL_CPU_PART, "CPU part %.60s: %.150s", part->name,
                    loaded->table->error_text(status));
    for (uint32_t i = 0; i < part->outputs.count; i++) {
        uint32_t index = part->outputs.indices[i];
        quantise_reals(&image->values[index], &context->buffers[index]);
    }
    return MAVCG_ACCEL_OK;
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
    const struct segment *segment = &program->image.segments[context->segment];
    mavcg_accel_memory code = {NULL, program->code.address + segment->code_offset, segment->code_bytes};
    write_address(device, MAVCG_ACCEL_CODE, &code, segment->code_bytes);
    write_address(device, MAVCG_ACCEL_PARAMETERS, &program->parameters, program->image.parameter_bytes);
    write_address(device, MAVCG_ACCEL_FEATURES, &context->features, (size_t)program->image.feature_bytes);
    device->write(device->context, MAVCG_ACCEL_SUBMIT, 1);
    context->ticket = device->read(device->context, MAVCG_ACCEL_SUBMITTED);
    context->submitted = true;
    return MAVCG_ACCEL_OK;
}

/* Copy the values of a list to the features segment, or from there. */
static void copy_list(mavcg_accel_context *context, const struct value_list *list, bool to_device) {
    for (uint32_t i = 0; i < list->count; i++) {
        const struct value *value = &context->program->image.values[list->indices[i]];
        copy_stored(value, &context->buffers[list->indices[i]], context->features.bytes, to_device);
    }
}

/* Run the CPU part before a segment, and give its job to the device. */
static int begin_segment(mavcg_accel_context *context, uint32_t number) {
    const mavcg_accel_device *device = context->program->device;
    const struct value_list *loaded = &context->program->image.segments[number].loaded;
    int status = run_part(context, number);
    if (status) return status;
    copy_list(context, loaded, true);
    device->sync(device->context, &context->features, MAVCG_ACCEL_TO_DEVICE);
    context->segment = number;
    return give_job(context);
}

int mavcg_accel_submit(mavcg_accel_context *context, const float *const *inputs) {
    if (!context || !inputs) return MAVCG_ACCEL_BAD_ARGUMENT;
    const struct image *image = &context->program->image;
    for (uint32_t i = 0; i < image->inputs.count; i++)
        if (!inputs[i]) return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "input %u is NULL", (unsigned)i);
    if (context->submitted || context->computed)
        return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "a run is under way; call mavcg_accel_finish first");
    for (uint32_t i = 0; i < image->inputs.count; i++) {
        uint32_t index = image->inputs.indices[i];
        take_input(&image->values[index], &context->buffers[index], inputs[i]);
    }
    context->cycles = 0;
    return begin_segment(context, 0);
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
        char segment[32] = "";
        if (context->program->image.segment_count > 1)
            snprintf(segment, sizeof segment, "segment %u, ", (unsigned)context->segment + 1);
        fail(context->message, 0, "the device stopped at %sinstruction %u%s%.180s", segment, (unsigned)stopped - 1,
             *text ? ": " : "", text);
    }
    if (ended) {
        context->cycles += device->read(device->context, MAVCG_ACCEL_CYCLES) |
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

int mavcg_accel_advance(mavcg_accel_context *context, int *more) {
    if (!context || !more) return MAVCG_ACCEL_BAD_ARGUMENT;
    *more = 0;
    if (context->computed) return MAVCG_ACCEL_OK;
    if (!context->submitted)
        return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "no job is under way; call mavcg_accel_submit first");
    int status = wait_for_job(context);
    if (status) return status;
    const mavcg_accel_device *device = context->program->device;
    const struct image *image = &context->program->image;
    const struct value_list *saved = &image->segments[context->segment].saved;
    device->sync(device->context, &context->features, MAVCG_ACCEL_FROM_DEVICE);
    copy_list(context, saved, false);
    *more = context->segment + 1 < image->segment_count;
    context->computed = !*more;
    return *more ? begin_segment(context, context->segment + 1) : MAVCG_ACCEL_OK;
}

int mavcg_accel_finish(mavcg_accel_context *context, float *const *outputs) {
    if (!context || !outputs) return MAVCG_ACCEL_BAD_ARGUMENT;
    const struct image *image = &context->program->image;
    for (uint32_t i = 0; i < image->output_count; i++)
        if (!outputs[i]) return fail(context->message, MAVCG_ACCEL_BAD_ARGUMENT, "output %u is NULL", (unsigned)i);
    int more = 1, status = MAVCG_ACCEL_OK;
    while (!status && more) status = mavcg_accel_advance(context, &more);
    if (status) return status;
    context->computed = false;
    status = run_part(context, image->segment_count);
    if (status) return status;
    for (uint32_t i = 0; i < image->output_count; i++) {
        const struct output *output = &image->outputs[i];
        give_output(output, &image->values[output->value], &context->buffers[output->value], outputs[i]);
    }
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
