/* Saved states of a model, whole, damaged and made up, with runs between them. What must hold: a run after a restored
 * state gives the bits of the run after it was saved, states of another size or another model are refused and leave the
 * context as it was, and whatever values a state has, a run ends with a documented status.
 *
 * The input is a list of calls: a byte says which, those after it how. The model is a GRU of 16 whose state stays. */
#include "engine_api.h"
#include "guarded.h"

enum { X = 4 * 8, Y = 4 * 16, SAVED = 3, MOST_CALLS = 24 };

struct saved {
    char *bytes;   /* of states, NULL where nothing is saved */
    float next[Y]; /* the result of the run after it, for the inputs that count up */
    int known;
};

static const mavcg_model_table *model;
static struct saved saved[SAVED];
static struct guarded memory[3];
static void *context;
static size_t state_bytes;

static int run(float *y) {
    float *x = array_in(memory[0], X * sizeof *x, 1), *result = array_in(memory[1], Y * sizeof *y, 1);
    for (int i = 0; i < X; i++) x[i] = (float)(i % 9 - 4) * 0.25f;
    memset(result, 0x5A, Y * sizeof *y);
    const void *inputs[] = {x};
    void *outputs[] = {result};
    int status = model->run(context, inputs, outputs);
    need(strcmp(model->error_text(status), "not a status of this library") != 0);
    need(status == MAVCG_OK || status == MAVCG_ERROR_STATE);
    if (!status) memcpy(y, result, Y * sizeof *y);
    return status;
}

/* Restores bytes that are not as they were saved. */
static void restore_odd(struct bytes *in) {
    enum { HEADER = 16, STATE = 16 * sizeof(float) };
    int how = (int)next(in, 1);
    float before[Y], after[Y];
    char right[HEADER + STATE];
    size_t size = state_bytes;
    char *copy = array_in(memory[2], size, 1);
    need(!model->state_save(context, copy, size));
    need(!run(before) && !model->state_restore(context, copy, size));
    memcpy(right, copy, sizeof right);
    for (int changes = how & 7; changes; changes--) {
        size_t at = next(in, 2) % size;
        copy[at] = (char)next(in, 1);
    }
    /* A byte may be changed back. */
    int same_header = !memcmp(copy, right, HEADER), whole = !memcmp(copy, right, sizeof right);
    if (how & 8) size = next(in, 4); /* none is read beyond where the size is another */
    int status = model->state_restore(context, how & 16 ? NULL : copy, size);
    if (how & 16) need(status == MAVCG_ERROR_NULL);
    else if (size != state_bytes) need(status == MAVCG_ERROR_SIZE);
    else need(status == (same_header ? MAVCG_OK : MAVCG_ERROR_STATE));
    need(!run(after));
    if (status || whole) need(!memcmp(before, after, sizeof before));
    if (how & 32) need(!model->reset(context));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    float y[Y];
    if (!model) {
        model = mavcg_model_api();
        need(model->state_count == 1 && model->input_count == 1 && model->output_count == 1);
        for (int i = 0; i < 3; i++) memory[i] = guarded_memory(4096);
    }
    const mavcg_options options = {1 + (size & 1), 0, {0, 0}};
    need(!model->create(&options, &context));
    state_bytes = model->state_size(context);
    need(state_bytes == 16 + 16 * sizeof(float));
    for (int calls = 0; calls < MOST_CALLS && in.at < in.end; calls++) {
        struct saved *slot = &saved[next(&in, 1) % SAVED];
        switch (next(&in, 1) & 7) {
        case 0:
            free(slot->bytes);
            slot->bytes = malloc(state_bytes), slot->known = 0;
            need(slot->bytes && !model->state_save(context, slot->bytes, state_bytes));
            break;
        case 1:
            if (!slot->bytes) break;
            need(!model->state_restore(context, slot->bytes, state_bytes) && !run(y));
            if (slot->known) need(!memcmp(y, slot->next, sizeof y));
            memcpy(slot->next, y, sizeof y), slot->known = 1;
            break;
        case 2: need(!model->reset(context)); break;
        case 3: need(model->state_save(context, y, next(&in, 1) % state_bytes) == MAVCG_ERROR_SIZE); break;
        case 4: need(model->cancel(context) == MAVCG_OK); break;
        case 5:
        case 6: restore_odd(&in); break;
        default: need(!run(y));
        }
    }
    for (int i = 0; i < SAVED; i++) free(saved[i].bytes), saved[i] = (struct saved){0};
    model->destroy(context);
    context = NULL;
    return 0;
}
