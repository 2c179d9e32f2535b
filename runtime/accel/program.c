/* Programs: loads a file's code and parameters into the device's memory, and the libraries of its CPU parts. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

static uint32_t read_register(const mavcg_accel_device *device, uint32_t offset) {
    return device->read(device->context, offset);
}

static int check_device(const mavcg_accel_device *device, const struct image *image, char *message) {
    const struct {
        uint32_t offset, value;
        const char *name;
    } needed[] = {
        {MAVCG_ACCEL_WORD, image->sizes.word, "bytes of a word"},
        {MAVCG_ACCEL_OC_LANES, image->sizes.oc_lanes, "output channels of the array"},
        {MAVCG_ACCEL_ROW_LANES, image->sizes.row_lanes, "rows of the array"},
        {MAVCG_ACCEL_BANKS, image->sizes.banks, "banks"},
        {MAVCG_ACCEL_ROUNDING, image->sizes.rounding, "as its rounding"},
    };
    if (read_register(device, MAVCG_ACCEL_ID) != MAVCG_ACCEL_ID_VALUE)
        return fail(message, MAVCG_ACCEL_OTHER_DEVICE, "the device's register ID says that it is no mavcg accelerator");
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        uint32_t value = read_register(device, needed[i].offset);
        if (value != needed[i].value)
            return fail(message, MAVCG_ACCEL_OTHER_DEVICE, "the device has %u %s, the program was built for %u",
                        (unsigned)value, needed[i].name, (unsigned)needed[i].value);
    }
    uint32_t features = read_register(device, MAVCG_ACCEL_FEATURE_WORDS);
    uint32_t weights = read_register(device, MAVCG_ACCEL_WEIGHT_WORDS);
    if (features < image->sizes.feature_words || weights < image->sizes.weight_words)
        return fail(message, MAVCG_ACCEL_OTHER_DEVICE,
                    "the device has %u and %u words of memory, the program was built for %u and %u", (unsigned)features,
                    (unsigned)weights, (unsigned)image->sizes.feature_words, (unsigned)image->sizes.weight_words);
    return MAVCG_ACCEL_OK;
}

static int copy_to_device(const mavcg_accel_device *device, const unsigned char *bytes, size_t size,
                          mavcg_accel_memory *memory, char *message) {
    if (device->allocate(device->context, size ? size : 1, memory))
        return fail(message, MAVCG_ACCEL_NO_MEMORY, "the device has no memory for %zu bytes", size);
    if (size) memcpy(memory->bytes, bytes, size);
    device->sync(device->context, memory, MAVCG_ACCEL_TO_DEVICE);
    return MAVCG_ACCEL_OK;
}

static int open_all(mavcg_accel_program *program, const char *path, char *message) {
    int status = read_image(path, &program->image, message);
    if (!status) status = check_device(program->device, &program->image, message);
    if (!status && !(program->parts = calloc(program->image.segment_count + 1u, sizeof *program->parts)))
        status = fail(message, MAVCG_ACCEL_NO_MEMORY, "no memory for CPU parts");
    for (uint32_t i = 0; !status && i <= program->image.segment_count; i++)
        status = load_part(path, &program->image, &program->image.parts[i], &program->parts[i], message);
    if (!status)
        status = copy_to_device(program->device, program->image.code, program->image.code_bytes, &program->code,
                                message);
    if (!status)
        status = copy_to_device(program->device, program->image.parameters, program->image.parameter_bytes,
                                &program->parameters, message);
    return status;
}

int mavcg_accel_open(const char *path, const mavcg_accel_device *device, mavcg_accel_program **program, char *message) {
    if (message) *message = 0;
    if (!path || !device || !program)
        return fail(message, MAVCG_ACCEL_BAD_ARGUMENT, "mavcg_accel_open: path, device or program is NULL");
    *program = NULL;
    mavcg_accel_program *made = calloc(1, sizeof *made);
    if (!made) return fail(message, MAVCG_ACCEL_NO_MEMORY, "no memory for a program");
    made->device = device;
    int status = open_all(made, path, message);
    if (status) mavcg_accel_close(made);
    else *program = made;
    return status;
}

void mavcg_accel_close(mavcg_accel_program *program) {
    if (!program) return;
    const mavcg_accel_device *device = program->device;
    if (program->code.bytes) device->release(device->context, &program->code);
    if (program->parameters.bytes) device->release(device->context, &program->parameters);
    for (uint32_t i = 0; program->parts && i <= program->image.segment_count; i++) unload_part(&program->parts[i]);
    free(program->parts);
    release_image(&program->image);
    free(program);
}

int mavcg_accel_input_count(const mavcg_accel_program *program) {
    return program ? (int)program->image.inputs.count : 0;
}

int mavcg_accel_output_count(const mavcg_accel_program *program) {
    return program ? (int)program->image.output_count : 0;
}

int mavcg_accel_segment_count(const mavcg_accel_program *program) {
    return program ? (int)program->image.segment_count : 0;
}

uint64_t mavcg_accel_segment_ns(const mavcg_accel_program *program, int segment) {
    if (!program || segment < 0 || (uint32_t)segment >= program->image.segment_count) return 0;
    return program->image.segments[segment].simulated_ns;
}

const mavcg_accel_tensor *mavcg_accel_input(const mavcg_accel_program *program, int index) {
    if (!program || index < 0 || (uint32_t)index >= program->image.inputs.count) return NULL;
    return &program->image.values[program->image.inputs.indices[index]].tensor;
}

const mavcg_accel_tensor *mavcg_accel_output(const mavcg_accel_program *program, int index) {
    return program && index >= 0 && (uint32_t)index < program->image.output_count
               ? &program->image.outputs[index].tensor
               : NULL;
}

const char *mavcg_accel_status_text(int status) {
    switch (status) {
    case MAVCG_ACCEL_OK: return "done";
    case MAVCG_ACCEL_BAD_FILE: return "the file is no program of mavcg accel build, or is damaged";
    case MAVCG_ACCEL_BAD_ARGUMENT: return "an argument is NULL, or there is no such core, input or output";
    case MAVCG_ACCEL_OTHER_DEVICE: return "the program was built for another device";
    case MAVCG_ACCEL_NO_MEMORY: return "there is no memory for it";
    case MAVCG_ACCEL_DEVICE_ERROR: return "the device stopped with an error";
    case MAVCG_ACCEL_TIMEOUT: return "the device did not finish in time";
    case MAVCG_ACCEL_CPU_PART: return "a CPU part's library is missing, is of another program, or failed";
    default: return "unknown status";
    }
}
