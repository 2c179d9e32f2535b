/* Runs every network of libapp.so on the file NAME.in (its inputs, one after the other), in turns and twice; frames of
 * one that is a pipeline go through it too, with the same bits as its run. Writes the outputs to NAME.out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

enum { MOST = 16, FRAMES = 3 };

static const mavcg_app_table *table;
static void *app;

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static FILE *open_file(const char *name, const char *suffix, const char *mode) {
    char path[128];
    snprintf(path, sizeof path, "%s.%s", name, suffix);
    FILE *file = fopen(path, mode);
    check(file != NULL, path);
    return file;
}

static void allocate(const mavcg_tensor *tensors, uint32_t count, void **arrays) {
    check(count <= MOST, "few tensors");
    for (uint32_t i = 0; i < count; i++) check((arrays[i] = calloc(1, tensors[i].bytes)) != NULL, "memory");
}

static void release(uint32_t count, void **arrays) {
    for (uint32_t i = 0; i < count; i++) free(arrays[i]);
}

static void run_network(uint32_t number, int threads) {
    const mavcg_model_table *model = table->networks[number].model;
    void *context = table->context(app, number);
    void *inputs[MOST], *outputs[MOST], *framed[FRAMES][MOST], *tag;
    allocate(model->inputs, model->input_count, inputs);
    allocate(model->outputs, model->output_count, outputs);
    FILE *file = open_file(model->name, "in", "rb");
    for (uint32_t i = 0; i < model->input_count; i++)
        check(fread(inputs[i], 1, model->inputs[i].bytes, file) == model->inputs[i].bytes, "the input's file");
    fclose(file);
    const void *const *in = (const void *const *)inputs;
    check(model->run(context, in, outputs) == MAVCG_OK, "a run");
    check(model->threads(context) <= threads, "threads");
    for (int frame = 0; frame < FRAMES && table->networks[number].stage_count; frame++) {
        allocate(model->outputs, model->output_count, framed[frame]);
        check(table->push(app, number, in, framed[frame], framed[frame], -1) == MAVCG_OK, "push");
    }
    for (int frame = 0; frame < FRAMES && table->networks[number].stage_count; frame++) {
        check(table->pop(app, number, &tag, -1) == MAVCG_OK && tag == framed[frame], "pop");
        for (uint32_t i = 0; i < model->output_count; i++)
            check(!memcmp(framed[frame][i], outputs[i], model->outputs[i].bytes), "a frame has the bits of a run");
        release(model->output_count, framed[frame]);
    }
    file = open_file(model->name, "out", "wb");
    for (uint32_t i = 0; i < model->output_count; i++)
        check(fwrite(outputs[i], 1, model->outputs[i].bytes, file) == model->outputs[i].bytes, "the output's file");
    check(!fclose(file), "the output's file");
    release(model->input_count, inputs);
    release(model->output_count, outputs);
}

int main(int count, char **arguments) {
    const int threads = count > 1 ? atoi(arguments[1]) : 1;
    const mavcg_options options = {.threads = threads};
    int pipelines = 0;
    table = mavcg_app_api();
    check(table->create(&options, &app) == MAVCG_OK, "create");
    for (uint32_t i = 0; i < table->network_count; i++) run_network(i, threads);
    for (uint32_t i = table->network_count; i--;) run_network(i, threads);
    for (uint32_t i = 0; i < table->network_count; i++) pipelines += table->networks[i].stage_count > 1;
    table->destroy(app);
    printf("done, %d pipelines\n", pipelines);
    return 0;
}
