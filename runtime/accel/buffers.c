/* Buffers of a run's values: allocation, conversion between f32 and int8, and transfer to and from the device. */
#include "buffers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Quantise as the compiler does, saturated: floor(real * 2^radix + 1/2), or the nearest multiple of a file's scale, to
 * even, from its zero point. NaN becomes 0. */
static int8_t quantise(float real, const mavcg_accel_tensor *tensor) {
    /* The quotient is a float, as ONNX has it. */
    double scaled = tensor->scale > 0 ? rint((double)(real / tensor->scale)) + tensor->zero
                                      : floor(ldexp((double)real, tensor->radix) + 0.5);
    if (scaled > INT8_MAX) return INT8_MAX;
    if (scaled < INT8_MIN) return INT8_MIN;
    return isnan(scaled) ? 0 : (int8_t)scaled;
}

/* Allocate the f32 buffers of values; not_stored: only of those without a radix position. */
static bool make_reals(const struct image *image, struct buffer *buffers, const struct value_list *list,
                       bool not_stored) {
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t index = list->indices[i];
        struct buffer *buffer = &buffers[index];
        if (not_stored && image->values[index].tensor.radix != NO_RADIX) continue;
        if (!buffer->reals && !(buffer->reals = malloc(image->values[index].tensor.elements * sizeof(float))))
            return false;
    }
    return true;
}

struct buffer *make_buffers(const struct image *image) {
    struct buffer *buffers = calloc(image->value_count + 1u, sizeof *buffers);
    bool whole = buffers != NULL;
    for (uint32_t i = 0; whole && i < image->value_count; i++)
        if (image->values[i].tensor.radix != NO_RADIX)
            whole = (buffers[i].integers = malloc(image->values[i].tensor.elements)) != NULL;
    for (uint32_t i = 0; whole && i <= image->segment_count; i++)
        whole = make_reals(image, buffers, &image->parts[i].outputs, false);
    if (whole && make_reals(image, buffers, &image->inputs, true)) return buffers;
    release_buffers(image, buffers);
    return NULL;
}

void release_buffers(const struct image *image, struct buffer *buffers) {
    for (uint32_t i = 0; buffers && i < image->value_count; i++) {
        free(buffers[i].integers);
        free(buffers[i].reals);
    }
    free(buffers);
}

/* Return the index, in the model's own order of dimensions, of the element with dense index `at`. dims: N, C, H, W if
 * nchw is true. */
static size_t model_index(const int64_t *dims, bool nchw, size_t at) {
    if (!nchw) return at;
    size_t channels = (size_t)dims[1], plane = (size_t)dims[2] * (size_t)dims[3];
    size_t channel = at % channels, pixel = at / channels;
    return (pixel / plane * channels + channel) * plane + pixel % plane;
}

void take_input(const struct value *value, const struct buffer *buffer, const float *input) {
    for (size_t i = 0; i < value->tensor.elements; i++) {
        float real = input[model_index(value->dims, value->nchw, i)];
        if (buffer->integers) buffer->integers[i] = quantise(real, &value->tensor);
        if (buffer->reals) buffer->reals[i] = real;
    }
}

void quantise_reals(const struct value *value, const struct buffer *buffer) {
    for (size_t i = 0; buffer->integers && i < value->tensor.elements; i++)
        buffer->integers[i] = quantise(buffer->reals[i], &value->tensor);
}

void copy_stored(const struct value *value, const struct buffer *buffer, void *features, bool to_device) {
    int8_t *dense = buffer->integers, *stored = (int8_t *)features + value->offset;
    for (uint32_t pixel = 0; pixel < value->pixels; pixel++, dense += value->channels, stored += value->pixel)
        if (to_device) memcpy(stored, dense, value->channels);
        else memcpy(dense, stored, value->channels);
}

/* Return the real number that an int8 stands for. */
static float real_of(int8_t integer, const mavcg_accel_tensor *tensor) {
    return tensor->scale > 0 ? (float)(integer - tensor->zero) * tensor->scale : ldexpf((float)integer, -tensor->radix);
}

void give_output(const struct output *output, const struct value *value, const struct buffer *buffer, float *made) {
    for (size_t i = 0; i < value->tensor.elements; i++)
        made[model_index(output->dims, output->nchw, i)] = buffer->integers
                                                               ? real_of(buffer->integers[i], &value->tensor)
                                                               : buffer->reals[i];
}
