/* Loads the model libraries of the CPU parts. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* True if a tensor of a library has the type of a value: inputs with a radix position are i8, other inputs and all
 * outputs f32. */
static bool agrees(const mavcg_tensor *tensor, const struct value *value, bool input) {
    bool eight_bit = input && value->tensor.radix != NO_RADIX;
    size_t bytes = value->tensor.elements * (eight_bit ? 1 : sizeof(float));
    return tensor->type == (eight_bit ? MAVCG_I8 : MAVCG_F32) && tensor->bytes == bytes;
}

static bool all_agree(const struct image *image, const mavcg_tensor *tensors, uint32_t count,
                      const struct value_list *list, bool input) {
    if (count != list->count) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!agrees(&tensors[i], &image->values[list->indices[i]], input)) return false;
    return true;
}

int load_part(const char *path, const struct image *image, const struct part *part, struct loaded_part *loaded,
              char *message) {
    if (!*part->name && part->outputs.count)
        return fail(message, MAVCG_ACCEL_CPU_PART,
                    "%.180s: no library was built for its CPU parts; build it with --board or --cores", path);
    if (!*part->name) return MAVCG_ACCEL_OK;
    if (strchr(part->name, '/'))
        return fail(message, MAVCG_ACCEL_BAD_FILE, "%.100s: the CPU part %.60s is no name of a file", path, part->name);
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, length = folder + strlen(part->name) + 3;
    char *file = malloc(length);
    if (!file) return fail(message, MAVCG_ACCEL_NO_MEMORY, "no memory for a path");
    if (slash) snprintf(file, length, "%.*s%s", (int)folder, path, part->name);
    else snprintf(file, length, "./%s", part->name);
    loaded->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    free(file);
    if (!loaded->library) return fail(message, MAVCG_ACCEL_CPU_PART, "CPU part %.60s: %.150s", part->name, dlerror());
    const mavcg_model_table *(*api)(void) = NULL;
    void *symbol = dlsym(loaded->library, "mavcg_model_api");
    memcpy(&api, &symbol, sizeof api); /* ISO C cannot cast an object pointer to a function pointer */
    loaded->table = api ? api() : NULL;
    const mavcg_model_table *table = loaded->table;
    if (!table || table->api != MAVCG_MODEL_API ||
        !all_agree(image, table->inputs, table->input_count, &part->inputs, true) ||
        !all_agree(image, table->outputs, table->output_count, &part->outputs, false))
        return fail(message, MAVCG_ACCEL_CPU_PART,
                    "CPU part %.60s: its inputs and outputs are not those of this program; build both again together",
                    part->name);
    return MAVCG_ACCEL_OK;
}

void unload_part(struct loaded_part *loaded) {
    if (loaded->library) dlclose(loaded->library);
    loaded->library = NULL;
    loaded->table = NULL;
}
