/* Buffers of the values of a run, in the host's memory. */
#ifndef MAVCG_ACCEL_BUFFERS_H
#define MAVCG_ACCEL_BUFFERS_H 1

#include "image.h"

/* Buffers of a value, dense in the order N, H, W, C: int8 if it has a radix position; f32 if a CPU part computes it, or
 * if it has no radix position. */
struct buffer {
    int8_t *integers;
    float *reals;
};

/* Return a buffer for each value; NULL if there is no memory. */
struct buffer *make_buffers(const struct image *image);
void release_buffers(const struct image *image, struct buffer *buffers);

/* Store an input of the network, in the model's order of dimensions, quantised if the value has a radix position. */
void take_input(const struct value *value, const struct buffer *buffer, const float *input);
/* Quantise what a CPU part has computed, if the value has a radix position. */
void quantise_reals(const struct value *value, const struct buffer *buffer);
/* Copy a value to its place in the features segment, or from there. */
void copy_stored(const struct value *value, const struct buffer *buffer, void *features, bool to_device);
/* Write an output of the network as f32, in the model's order of dimensions. */
void give_output(const struct output *output, const struct value *value, const struct buffer *buffer, float *made);

#endif
