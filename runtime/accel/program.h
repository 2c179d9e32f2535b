/* Programs and the CPU parts' libraries, as the files of the host side share them. */
#ifndef MAVCG_ACCEL_PROGRAM_H
#define MAVCG_ACCEL_PROGRAM_H 1

#include "engine_api.h"
#include "image.h"

/* A model library that computes a CPU part; table is NULL where there is none. */
struct loaded_part {
    void *library;
    const mavcg_model_table *table;
};

struct mavcg_accel_program {
    const mavcg_accel_device *device;
    struct image image;
    mavcg_accel_memory code, parameters;
    struct loaded_part before, after;
};

/* Load the library of a part, which lies beside the program at `path`, and compare its tensors with the part's. */
int load_part(const char *path, const struct image *image, const struct part *part, struct loaded_part *loaded,
              char *message);
void unload_part(struct loaded_part *loaded);

#endif
