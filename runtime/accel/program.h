/* Programs and the libraries of their CPU parts: types that the files of the host side share. */
#ifndef MAVCG_ACCEL_PROGRAM_H
#define MAVCG_ACCEL_PROGRAM_H 1

#include "engine_api.h"
#include "image.h"

/* The model library of a CPU part; table is NULL if there is no part. */
struct loaded_part {
    void *library;
    const mavcg_model_table *table;
};

struct mavcg_accel_program {
    const mavcg_accel_device *device;
    struct image image;
    mavcg_accel_memory code, parameters;
    struct loaded_part *parts; /* one more than segments, as image.parts */
};

/* Load the library of a part from the folder of the program at `path`, and compare its tensors with the part's. Returns
 * a status. */
int load_part(const char *path, const struct image *image, const struct part *part, struct loaded_part *loaded,
              char *message);
void unload_part(struct loaded_part *loaded);

#endif
