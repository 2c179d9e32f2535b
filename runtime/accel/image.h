/* A program's file in memory: its ELF sections, and the table of the tensors that the host transfers. */
#ifndef MAVCG_ACCEL_IMAGE_H
#define MAVCG_ACCEL_IMAGE_H 1

#include <stdbool.h>

#include "mavcg_accel.h"
#include "mavcg_accel_simulator.h"

enum {
    MESSAGE_BYTES = 256,
    HOST_TABLE_MAGIC = 0x3354484d, /* "MHT3" */
    MOST_RANK = 8,
    NO_RADIX = INT32_MIN
};

/* A tensor that the host handles. offset, pixel: its position in the features segment and the distance between pixels,
 * in bytes; pixel 0: it is not there. */
struct value {
    mavcg_accel_tensor tensor;
    int64_t dims[MOST_RANK];
    bool nchw; /* the model's own order is N, C, H, W, and so is that of dims */
    uint64_t offset;
    uint32_t pixel, pixels, channels;
};

struct value_list {
    uint32_t count;
    uint32_t *indices;
};

/* An output of the network: a value by the name and with the dims of the model. */
struct output {
    mavcg_accel_tensor tensor;
    int64_t dims[MOST_RANK];
    uint32_t value; /* its index */
    bool nchw;      /* the model's order is N, C, H, W, that of the value's elements N, H, W, C */
};

/* A CPU part: a library that computes some values from others; name is "" if there is no part. */
struct part {
    const char *name;
    struct value_list inputs, outputs;
};

/* A run of the accelerator: its code, the values that the host writes before it, and those that it reads after it. */
struct segment {
    uint32_t code_offset, code_bytes;
    uint64_t simulated_ns; /* of the device, for a run of an image or a batch; 0: not known */
    struct value_list loaded, saved;
};

struct image {
    unsigned char *file;
    size_t file_bytes;
    mavcg_accel_sizes sizes;
    const unsigned char *code, *parameters;
    size_t code_bytes, parameter_bytes;
    uint64_t feature_bytes;
    uint32_t value_count;
    struct value *values;
    uint32_t output_count;
    struct output *outputs;   /* of the network */
    struct value_list inputs; /* of the network */
    uint32_t segment_count;
    struct segment *segments;
    struct part *parts; /* segment_count + 1: before each segment, and after the last */
};

/* Read and check a file. message: [MESSAGE_BYTES], or NULL. Returns a status. */
int read_image(const char *path, struct image *image, char *message);
void release_image(struct image *image);
/* Format a message, truncated to its buffer; returns the status. */
int fail(char *message, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
