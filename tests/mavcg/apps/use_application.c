/* Runs each network of libapp.so on the file NAME.in, twice and in turns, and writes NAME.out; then several threads at
 * once: a run gives the right result, or MAVCG_BUSY. Its memory is what the header says. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

enum { NETWORKS = 3, ROUNDS = 200 };
static const char *const names[NETWORKS] = {"detector", "recogniser", "tracker"};
static void *inputs[NETWORKS], *outputs[NETWORKS], *contexts[NETWORKS];
static size_t output_bytes[NETWORKS];
static const mavcg_app_table *table;

static int run(int n, void *output) {
    const void *in[] = {inputs[n]};
    void *out[] = {output};
    return table->networks[n].model->run(contexts[n], in, out);
}

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void *read_input(int n, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "%s.in", names[n]);
    FILE *file = fopen(path, "rb");
    void *data = malloc(bytes);
    check(file && fread(data, 1, bytes, file) == bytes, path);
    fclose(file);
    return data;
}

static void write_output(int n) {
    char path[64];
    snprintf(path, sizeof path, "%s.out", names[n]);
    FILE *file = fopen(path, "wb");
    check(file && fwrite(outputs[n], 1, output_bytes[n], file) == output_bytes[n] && !fclose(file), path);
}

static void *run_often(void *argument) {
    int n = *(int *)argument;
    long done = 0;
    void *own = malloc(output_bytes[n]);
    for (int round = 0; round < ROUNDS; round++) {
        int status = run(n, own);
        check(status == MAVCG_OK || status == MAVCG_BUSY, "a run beside others");
        if (status) continue;
        check(!memcmp(own, outputs[n], output_bytes[n]), "the result of a run beside others");
        done++;
    }
    free(own);
    return (void *)done;
}

int main(int count, char **arguments) {
    mavcg_options options = {.threads = count > 1 ? atoi(arguments[1]) : 1};
    app_application *app;
    check(app_create_application(&options, NULL) == MAVCG_ERROR_NULL, "no place for the application");
    options.threads = -1;
    check(app_create_application(&options, &app) == MAVCG_ERROR_OPTION && !app, "wrong options");
    options.threads = count > 1 ? atoi(arguments[1]) : 1;
    check(app_create_application(&options, &app) == MAVCG_OK, "create");
    table = mavcg_app_api();
    check(table->network_count == NETWORKS && !strcmp(table->name, "app"), "the table");
    contexts[0] = app_context_of_detector(app);
    contexts[1] = app_context_of_recogniser(app);
    contexts[2] = app_context_of_tracker(app);
    check(!mavcg_app_app_context(app, NETWORKS) && !mavcg_app_app_context(NULL, 0), "a network that is not there");
    uint64_t separate = 0;
    for (int n = 0; n < NETWORKS; n++) {
        const mavcg_model_table *model = table->networks[n].model;
        check(!strcmp(model->name, names[n]), "the networks' order");
        separate += model->arena_bytes;
        output_bytes[n] = model->outputs[0].bytes;
        inputs[n] = read_input(n, model->inputs[0].bytes);
        outputs[n] = malloc(output_bytes[n]);
    }
    check(table->arena_bytes < separate, "one memory is less than three");
    for (int round = 0; round < 2; round++)
        for (int n = 0; n < NETWORKS; n++) check(run(n, outputs[n]) == MAVCG_OK, "a run in turn");
    for (int n = 0; n < NETWORKS; n++) write_output(n);

    pthread_t threads[NETWORKS];
    int numbers[NETWORKS];
    long done = 0;
    for (int n = 0; n < NETWORKS; n++) {
        numbers[n] = n;
        check(!pthread_create(&threads[n], NULL, run_often, &numbers[n]), "a thread");
    }
    for (int n = 0; n < NETWORKS; n++) {
        void *own;
        pthread_join(threads[n], &own);
        done += (long)own;
    }
    check(done > 0, "some runs beside others");

    /* A network's own create gives memory of its own. */
    detector_context *alone;
    check(detector_create(&options, &alone) == MAVCG_OK, "a context alone");
    const void *in[] = {inputs[0]};
    void *out[] = {malloc(output_bytes[0])};
    check(detector_run(alone, in, out) == MAVCG_OK && !memcmp(out[0], outputs[0], output_bytes[0]), "its result");
    detector_destroy(alone);
    free(out[0]);

    pid_t child = fork(); /* parent and child may both use their copies */
    if (!child) {
        void *own = malloc(output_bytes[1]);
        check(run(1, own) == MAVCG_OK && !memcmp(own, outputs[1], output_bytes[1]), "a run in the child");
        app_destroy_application(app);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && !status, "the child");
    check(run(2, outputs[2]) == MAVCG_OK, "a run after the fork");
    app_destroy_application(app);
    app_destroy_application(NULL);
    for (int n = 0; n < NETWORKS; n++) {
        free(inputs[n]);
        free(outputs[n]);
    }
    puts("done");
    return 0;
}
