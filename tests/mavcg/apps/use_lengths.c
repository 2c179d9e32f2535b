/* Sets lengths of networks of libapp.so, and pushes frames of several lengths: hostile ones end in a status, and frames
 * have the results of runs. Arrays have exactly the size of their length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

enum { MOST = 40, WIDTH = 16, RESULTS = 24, SLOTS = 6 };

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

struct frame {
    int64_t tokens;
    float *x, *y, *right;
};

static int shape_stages(app_application *app, int64_t tokens) {
    const int64_t shape[] = {1, tokens, WIDTH}, *dims[] = {shape};
    return stages_set_shape(app_context_of_stages(app), dims);
}

static int push(app_application *app, struct frame *frame) {
    const void *in[] = {frame->x};
    void *out[] = {frame->y};
    return app_push_stages(app, in, out, frame, 0);
}

/* A frame of a length, and its results by a run of the network that is no pipeline. */
static struct frame made(app_application *app, int64_t tokens) {
    size_t bytes = (size_t)tokens * RESULTS * sizeof(float);
    struct frame frame = {tokens, malloc((size_t)tokens * WIDTH * sizeof(float)), malloc(bytes), malloc(bytes)};
    for (int64_t i = 0; i < tokens * WIDTH; i++) frame.x[i] = (float)((i * 7919 + tokens) % 101 - 50) / 32;
    const int64_t shape[] = {1, tokens, WIDTH}, *dims[] = {shape};
    encoder_context *encoder = app_context_of_encoder(app);
    check(encoder_set_shape(encoder, dims) == MAVCG_OK, "a length of the encoder");
    check(encoder_context_outputs(encoder)[0].bytes == bytes, "bytes of a length");
    const void *in[] = {frame.x};
    void *out[] = {frame.right};
    check(encoder_run(encoder, in, out) == MAVCG_OK, "a run");
    return frame;
}

static void pop(app_application *app, const struct frame *frame) {
    void *tag;
    check(app_pop_stages(app, &tag, -1) == MAVCG_OK && tag == frame, "frames come in order");
    check(!memcmp(frame->y, frame->right, (size_t)frame->tokens * RESULTS * sizeof(float)), "a frame's result");
}

int main(void) {
    const int64_t hostile[] = {0, -1, MOST + 1, INT64_MAX, INT64_MIN, (INT64_C(1) << 32) + 7, INT64_MIN + 7};
    const int64_t lengths[SLOTS] = {MOST, 1, 7, 2, 39, 7};
    app_application *app;
    check(app_create_application(NULL, &app) == MAVCG_OK, "create");
    struct frame frames[SLOTS];
    for (int i = 0; i < SLOTS; i++) frames[i] = made(app, lengths[i]);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SLOTS; i++) { /* the lengths of frames before stay */
            check(shape_stages(app, frames[i].tokens) == MAVCG_OK, "a length between pushes");
            check(push(app, &frames[i]) == MAVCG_OK, "push");
            for (size_t n = 0; n < sizeof hostile / sizeof *hostile; n++)
                check(shape_stages(app, hostile[n]) == MAVCG_ERROR_SIZE, "a length out of bounds");
        }
        check(push(app, &frames[SLOTS - 1]) == MAVCG_AGAIN, "a full pipeline");
        for (int i = 0; i < SLOTS; i++) pop(app, &frames[i]);
        for (int i = 0; i < SLOTS; i++) memset(frames[i].y, 0, (size_t)frames[i].tokens * RESULTS * sizeof(float));
    }
    check(shape_stages(app, 1) == MAVCG_OK, "a single token");
    float together[WIDTH + RESULTS]; /* of one token: arrays beside each other do not overlap */
    memcpy(together, frames[1].x, WIDTH * sizeof(float));
    const void *in[] = {together};
    void *beside[] = {together + WIDTH}, *over[] = {together + WIDTH - 1};
    check(app_push_stages(app, in, over, NULL, 0) == MAVCG_ERROR_OVERLAP, "an output on an input");
    check(app_push_stages(app, in, beside, NULL, 0) == MAVCG_OK && app_pop_stages(app, NULL, -1) == MAVCG_OK, "beside");
    check(!memcmp(together + WIDTH, frames[1].right, RESULTS * sizeof(float)), "the result beside");
    app_destroy_application(app);
    for (int i = 0; i < SLOTS; i++) free(frames[i].x), free(frames[i].y), free(frames[i].right);
    puts("done");
    return 0;
}
