/* Run a model library of mavcg as bench/arm_peers_run.py runs the other runtimes: LIBRARY OUTPUT INPUT..., files of raw
   bytes; two runs that warm, then one between two calls of getppid, which mark it for the simulator. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_api.h"

enum { MOST = 64, WARM = 2, LINE = 64 };

static void *buffer_of(size_t bytes) { return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE); }

static int fail(const char *what) {
    fprintf(stderr, "arm_library: %s\n", what);
    return 1;
}

int main(int count, char **words) {
    if (count < 3) return fail("give LIBRARY OUTPUT INPUT...");
    void *library = dlopen(words[1], RTLD_NOW);
    if (library == NULL) return fail(dlerror());
    const mavcg_model_table *(*api)(void) = (const mavcg_model_table *(*)(void))dlsym(library, "mavcg_model_api");
    if (api == NULL) return fail("the file is no model library");
    const mavcg_model_table *model = api();
    void *inputs[MOST], *outputs[MOST], *context = NULL;
    if ((int)model->input_count != count - 3 || model->output_count > MOST) return fail("the model has other inputs");
    for (uint32_t n = 0; n < model->input_count; n++) {
        FILE *file = fopen(words[3 + n], "rb");
        inputs[n] = buffer_of(model->inputs[n].bytes);
        if (file == NULL || inputs[n] == NULL) return fail("an input cannot be read");
        size_t got = fread(inputs[n], 1, model->inputs[n].bytes, file);
        fclose(file);
        if (got != model->inputs[n].bytes) return fail("an input has another size");
    }
    for (uint32_t n = 0; n < model->output_count; n++) {
        outputs[n] = buffer_of(model->outputs[n].bytes);
        if (outputs[n] == NULL) return fail("no memory left");
    }
    mavcg_options options = {.threads = 1};
    int status = model->create(&options, &context);
    for (int n = 0; n < WARM && status == MAVCG_OK; n++)
        status = model->run(context, (const void *const *)inputs, outputs);
    getppid();
    if (status == MAVCG_OK) status = model->run(context, (const void *const *)inputs, outputs);
    getppid();
    if (status != MAVCG_OK) return fail(model->error_text(status));
    FILE *file = fopen(words[2], "wb");
    if (file == NULL) return fail("the output cannot be written");
    for (uint32_t n = 0; n < model->output_count; n++)
        if (fwrite(outputs[n], 1, model->outputs[n].bytes, file) != model->outputs[n].bytes)
            return fail("the output cannot be written");
    return fclose(file) ? fail("the output cannot be written") : 0;
}
