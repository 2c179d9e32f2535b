/* Pushes frames of the file x.in through libapp.so's pipeline, from one thread and from two, compares them with a plain
 * run, and writes x.out. What the header says of full pipelines, turns, cancelling and forks holds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

enum { INPUT = 3 * 24 * 24, OUTPUT = 8, FRAMES = 50, SLOTS = 6, BACKBONE = 0, OTHER = 1 };

static float input[INPUT], right[OUTPUT];
static float made[FRAMES][OUTPUT];
static app_application *app;

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static int push(int frame, int32_t timeout_ms) {
    const void *in[] = {input};
    void *out[] = {made[frame]};
    return app_push_backbone(app, in, out, made[frame], timeout_ms);
}

static void *pop_all(void *argument) {
    (void)argument;
    for (int frame = 0; frame < FRAMES; frame++) {
        void *tag;
        check(app_pop_backbone(app, &tag, -1) == MAVCG_OK && tag == made[frame], "frames come in order");
    }
    return NULL;
}

static void push_and_pop(void) {
    pthread_t consumer;
    memset(made, 0, sizeof made);
    check(!pthread_create(&consumer, NULL, pop_all, NULL), "a thread");
    for (int frame = 0; frame < FRAMES; frame++) check(push(frame, -1) == MAVCG_OK, "push");
    pthread_join(consumer, NULL);
    for (int frame = 0; frame < FRAMES; frame++) check(!memcmp(made[frame], right, sizeof right), "a frame's result");
}

int main(void) {
    FILE *file = fopen("x.in", "rb");
    check(file && fread(input, 1, sizeof input, file) == sizeof input, "x.in");
    fclose(file);
    const uint16_t cpus[] = {0};
    mavcg_stage_place place = {.network = BACKBONE, .stage = 1, .threads = 2, .cpu_count = 1, .cpus = cpus};
    void *placed;
    place.stage = 3;
    check(mavcg_app_app_create_placed(NULL, &place, 1, &placed) == MAVCG_ERROR_OPTION && !placed, "a stage too many");
    place.stage = 1;
    place.network = 2;
    check(mavcg_app_app_create_placed(NULL, &place, 1, &placed) == MAVCG_ERROR_OPTION, "a network too many");
    place.network = BACKBONE;
    place.cpus = NULL;
    check(mavcg_app_app_create_placed(NULL, &place, 1, &placed) == MAVCG_ERROR_NULL, "no CPUs");
    place.cpus = cpus;
    check(mavcg_app_app_create_placed(NULL, &place, 1, &placed) == MAVCG_OK, "a place for a stage");
    check(mavcg_app_app_stage_threads(placed, BACKBONE, 1) == 2, "threads of a stage");
    check(mavcg_app_app_stage_threads(placed, BACKBONE, 3) == MAVCG_ERROR_NULL, "threads of no stage");
    app = placed;

    const void *in[] = {input};
    void *out[] = {right};
    check(other_run(app_context_of_other(app), in, out) == MAVCG_OK, "a plain run");
    check(mavcg_app_api()->networks[BACKBONE].stage_count == 3 && !mavcg_app_api()->networks[OTHER].stage_count,
          "the table");
    check(mavcg_app_app_push(app, OTHER, in, out, NULL, 0) == MAVCG_ERROR_NULL, "a network without a pipeline");
    check(mavcg_app_app_pop(NULL, BACKBONE, NULL, 0) == MAVCG_ERROR_NULL, "no application");
    void *on_input[] = {input};
    check(app_push_backbone(app, in, on_input, NULL, 0) == MAVCG_ERROR_OVERLAP, "an output on an input");
    check(app_pop_backbone(app, NULL, 0) == MAVCG_AGAIN, "no frame");
    push_and_pop();

    for (int frame = 0; frame < SLOTS; frame++) check(push(frame, 0) == MAVCG_OK, "push without waiting");
    check(push(SLOTS, 0) == MAVCG_AGAIN && push(SLOTS, 1) == MAVCG_AGAIN, "a full pipeline");
    check(app_cancel_frames_of_backbone(app) == MAVCG_OK, "cancel");
    for (int frame = 0; frame < SLOTS; frame++) {
        int status = app_pop_backbone(app, NULL, -1);
        check(status == MAVCG_CANCELLED || (status == MAVCG_OK && !memcmp(made[frame], right, sizeof right)),
              "a frame that was cancelled, or complete before");
    }
    push_and_pop();

    for (int round = 0; round < 3; round++) { /* in the middle of frames: the child has none, and threads of its own */
        for (int frame = 0; frame < 4; frame++) check(push(frame, -1) == MAVCG_OK, "push before a fork");
        pid_t child = fork();
        if (!child) {
            check(app_pop_backbone(app, NULL, 0) == MAVCG_AGAIN, "the child has no frames");
            push_and_pop();
            check(other_run(app_context_of_other(app), in, out) == MAVCG_OK, "a plain run in the child");
            check(push(0, 0) == MAVCG_OK, "a frame that nobody pops");
            app_destroy_application(app);
            _exit(0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && !status, "the child");
        for (int frame = 0; frame < 4; frame++) check(app_pop_backbone(app, NULL, -1) == MAVCG_OK, "pop after a fork");
    }
    check(push(0, 0) == MAVCG_OK && push(1, 0) == MAVCG_OK, "frames on their way");
    app_destroy_application(app);
    file = fopen("x.out", "wb");
    check(file && fwrite(right, 1, sizeof right, file) == sizeof right && !fclose(file), "x.out");
    puts("done");
    return 0;
}
