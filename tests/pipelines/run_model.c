/* run_model INPUTS OUTPUTS THREADS RUNS [move]: runs the model library that it is linked with.

   INPUTS: the inputs' bytes one after the other; OUTPUTS gets the outputs' likewise. All runs must give the same bytes
   as the first. move: all the while a thread moves every other one from CPU to CPU, and runs go on until it has done so
   MOVES times. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../runtime/engine/need.h"
#include "road.h"

extern const mavcg_model_table *mavcg_model_api(void);

enum { MOVES = 300 };
static atomic_int done, moves;

static void *mover(void *nothing) {
    pid_t own = (pid_t)syscall(SYS_gettid); /* glibc 2.17 has no gettid() */
    (void)nothing;
    for (unsigned turn = 0; !done; turn++) {
        DIR *tasks = opendir("/proc/self/task");
        NEED(tasks);
        for (struct dirent *entry; (entry = readdir(tasks));) {
            pid_t task = atoi(entry->d_name);
            cpu_set_t set;
            if (!task || task == own) continue;
            CPU_ZERO(&set);
            CPU_SET((turn + (unsigned)task) % 2, &set);
            if (!sched_setaffinity(task, sizeof set, &set)) moves++;
        }
        closedir(tasks);
        usleep(50 + turn % 7 * 60);
    }
    return NULL;
}

int main(int argc, char **argv) {
    NEED(argc >= 5);
    const mavcg_model_table *model = mavcg_model_api();
    const void *inputs[16];
    void *outputs[16], *first[16], *context;
    NEED(model->input_count <= 16 && model->output_count <= 16);
    FILE *file = fopen(argv[1], "rb");
    NEED(file);
    for (unsigned i = 0; i < model->input_count; i++) {
        void *data = malloc(model->inputs[i].bytes);
        NEED(fread(data, 1, model->inputs[i].bytes, file) == model->inputs[i].bytes);
        inputs[i] = data;
    }
    NEED(fgetc(file) == EOF);
    fclose(file);
    for (unsigned i = 0; i < model->output_count; i++) {
        outputs[i] = malloc(model->outputs[i].bytes);
        first[i] = malloc(model->outputs[i].bytes);
    }
    mavcg_options options = {.threads = atoi(argv[3])};
    int status = model->create(&options, &context), runs = atoi(argv[4]), move = argc > 5;
    pthread_t moving;
    NEED(status == MAVCG_OK);
    NEED(!move || !pthread_create(&moving, NULL, mover, NULL));
    for (int run = 0; run < runs || (move && moves < MOVES); run++) {
        for (unsigned i = 0; i < model->output_count; i++) memset(outputs[i], 0xA5, model->outputs[i].bytes);
        status = model->run(context, inputs, outputs);
        if (status) fprintf(stderr, "run %d: %s\n", run, model->error_text(status));
        NEED(status == MAVCG_OK);
        for (unsigned i = 0; i < model->output_count; i++) {
            if (!run) memcpy(first[i], outputs[i], model->outputs[i].bytes);
            NEED(!memcmp(first[i], outputs[i], model->outputs[i].bytes));
        }
    }
    done = 1;
    if (move) pthread_join(moving, NULL);
    model->destroy(context);
    file = fopen(argv[2], "wb");
    NEED(file);
    for (unsigned i = 0; i < model->output_count; i++)
        NEED(fwrite(first[i], 1, model->outputs[i].bytes, file) == model->outputs[i].bytes);
    NEED(!fclose(file));
    printf("runs %d moves %d\n", runs, (int)moves);
    return 0;
}
