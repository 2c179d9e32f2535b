/* A program that closes a model library while it still uses it: argv[1] is the library, argv[2] a number of threads.
 *
 * The library must stay until its last context is destroyed, then go. "ok" when all was so. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine_api.h"
#include "need.h"

enum { LENGTH = 1000, ROWS = 96, NAPS = 3 }; /* as in kernels.c */

struct arrays {
    float x[LENGTH], y[LENGTH];
    int32_t ms[1], who[ROWS], naps[NAPS];
    uint32_t modes[ROWS];
    uint8_t intact[ROWS];
};

static const mavcg_model_table *table;
static const char *path;

static int run(void *context, int ms) {
    struct arrays *a = calloc(1, sizeof *a);
    NEED(a);
    a->ms[0] = ms;
    const void *inputs[2] = {a->x, a->ms};
    void *outputs[5] = {a->y, a->who, a->modes, a->intact, a->naps};
    int status = table->run(context, inputs, outputs);
    NEED(status || a->naps[NAPS - 1] == ms);
    free(a);
    return status;
}

static void *nap(void *context) { return run(context, 100) == MAVCG_OK ? context : NULL; }

static void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static int is_loaded(void) {
    void *again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (again) dlclose(again);
    return again != NULL;
}

static void *opened(void) {
    const mavcg_model_table *(*api)(void);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    NEED(library);
    *(void **)&api = dlsym(library, "mavcg_model_api");
    NEED(api);
    table = api();
    return library;
}

int main(int argc, char **argv) {
    NEED(argc == 3);
    path = argv[1];
    mavcg_options options = {atoi(argv[2]), 0, {0, 0}};
    void *contexts[2];
    pthread_t thread;
    for (int round = 0; round < 3; round++) {
        void *library = opened();
        for (int i = 0; i < 2; i++) NEED(table->create(&options, &contexts[i]) == MAVCG_OK);
        NEED(run(contexts[0], 0) == MAVCG_OK);
        if (round < 2) {
            NEED(!dlclose(library)); /* threads sleep, and maybe one is in a run */
            if (round) NEED(!pthread_create(&thread, NULL, nap, contexts[0]));
            sleep_ms(20);
            NEED(run(contexts[1], 0) == MAVCG_OK);
            if (round) {
                void *napped;
                NEED(!pthread_join(thread, &napped) && napped);
            }
            NEED(run(contexts[0], 0) == MAVCG_OK && is_loaded());
        }
        table->destroy(contexts[1]);
        NEED(is_loaded());
        table->destroy(contexts[0]); /* returns here, from code that is gone */
        if (round == 2) NEED(is_loaded() && !dlclose(library));
        NEED(!is_loaded());
    }
    printf("ok\n");
    return 0;
}
