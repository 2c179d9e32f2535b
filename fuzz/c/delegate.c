/* A delegate under a LiteRT that has other graphs than the delegate's, and fails at any call: options, partitions,
 * kernels, runs. What must hold: what is refused has words, nothing is leaked, a graph that is not the file's is left to
 * the runtime, and a run of the file's graph gives the right bits. */
#include <unistd.h>

#include "fake_tflite.h"
#include "guarded.h"

enum { ELEMENTS = 4 * 4 * 3, MOST_RUNS = 3 };

static float expected[ELEMENTS];
static int is_ready, reports;

static void report(const char *text) {
    need(*text != 0);
    reports++;
}

/* Applies the delegate. Returns the status; a kernel that takes the place of nodes is in `fake`. */
static int apply(tflite_delegate *delegate) { return delegate->prepare(&fake.context, delegate); }

/* Starts, prepares and runs the kernel. Returns 0, or 1 where something is refused. */
static int run_kernel(tflite_delegate *delegate, struct bytes *in) {
    tflite_delegate_params params = {delegate, (tflite_ints *)(void *)&fake.replaced, NULL, NULL};
    int how = in ? (int)next(in, 1) : 0, refused = 0, errors = fake.errors;
    if (how & 1) fake.replaced.size = (int)next(in, 1) % (FAKE_DIMS + 1);
    if (how & 2) fake.replaced.data[next(in, 1) % FAKE_DIMS] = (int)next(in, 4);
    if (how & 4) fake.dims[next(in, 1) % TENSORS].data[next(in, 1) % 4] = (int)next(in, 1);
    tflite_node node = {.user_data = fake.kernel.init(&fake.context, (const char *)&params, 0)};
    if (how & 8) fake.dims[next(in, 1) % TENSORS].data[next(in, 1) % 4] = (int)next(in, 1);
    if (fake.kernel.prepare(&fake.context, &node)) refused = 1;
    need(!refused || !node.user_data || fake.errors > errors);
    for (int runs = 0; !refused && runs < MOST_RUNS; runs++) {
        float *x = fake.places[FILE_INPUT], *y = fake.places[FILE_OUTPUT];
        for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(i % 11 - 5) * 0.25f;
        memset(y, 0x5A, ELEMENTS * sizeof *y);
        need(!fake.kernel.invoke(&fake.context, &node));
        if (is_ready) need(!memcmp(y, expected, sizeof expected));
    }
    fake.kernel.free(&fake.context, node.user_data);
    return refused;
}

static void prepare(void) {
    char *keys[] = {(char *)"quiet"}, *values[] = {(char *)"1"};
    tflite_delegate *delegate = tflite_plugin_create_delegate(keys, values, 1, report);
    fake_graph();
    need(delegate && !apply(delegate) && fake.has_kernel && fake.replaced.size == FILE_NODES);
    need(!run_kernel(delegate, NULL));
    memcpy(expected, fake.places[FILE_OUTPUT], sizeof expected);
    tflite_plugin_destroy_delegate(delegate);
    is_ready = 1;
}

/* Changes the graph. Returns whether it is another one by what the delegate compares. */
static void change(struct bytes *in) {
    static unsigned char copy[sizeof file_bytes];
    for (int changes = (int)next(in, 1) & 7; changes; changes--) {
        tflite_tensor *tensor = &fake.tensors[next(in, 1) % TENSORS];
        struct fake_dims *dims = &fake.dims[next(in, 1) % TENSORS];
        switch (next(in, 1) & 15) {
        case 0: tensor->type = (int)next(in, 1); break;
        case 1: tensor->dims = NULL; break;
        case 2: dims->data[next(in, 1) % 4] = (int)next(in, 4); break;
        case 3: dims->size = (int)next(in, 1) % (FAKE_DIMS + 1); break;
        case 4: tensor->allocation_type = (int)next(in, 1) % 8; break;
        case 5: tensor->data = NULL; break;
        case 6: tensor->data = (void *)(uintptr_t)next(in, 8); break; /* an address of anything: it is never followed */
        case 7: tensor->data = (void *)((uintptr_t)tensor->data + next(in, 1)); break;
        case 8:
            memcpy(copy, file_bytes, sizeof copy);
            copy[next(in, 2) % sizeof copy] ^= (unsigned char)next(in, 1);
            for (int i = 0; i < (int)TENSORS; i++)
                if (file_tensors[i].offset >= 0) fake.tensors[i].data = copy + file_tensors[i].offset;
            break;
        case 9: fake.context.tensors_size = next(in, 1) % (TENSORS + 1); break;
        case 10: fake.plan.size = (int)next(in, 1) % (FAKE_DIMS + 1); break;
        case 11: tensor->delegate = (tflite_delegate *)(void *)&fake; break;
        case 12:
            fake.partition_count = (int)next(in, 1) % 5;
            for (int i = 0; i < 4; i++) {
                fake.partitions[i].size = (int)next(in, 1) % (FAKE_DIMS + 1);
                for (int k = 0; k < FAKE_DIMS; k++) fake.partitions[i].data[k] = (int)next(in, 1) % 4;
            }
            break;
        default: fake.fail_at = (int)next(in, 1) % 6; break;
        }
    }
}

/* The arrays that a run reads and writes are in their places, whatever was done to the graph before. */
static int runs_in_place(void) {
    return fake.context.tensors_size == TENSORS && fake.tensors[FILE_INPUT].data == fake.places[FILE_INPUT] &&
           fake.tensors[FILE_OUTPUT].data == fake.places[FILE_OUTPUT];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    char text[4][16] = {{0}};
    char *keys[3] = {text[0], text[1]}, *values[3] = {text[2], text[3]};
    if (!is_ready) prepare();
    size_t count = next(&in, 1) % 3;
    for (size_t i = 0; i < count; i++) {
        int which = (int)next(&in, 1);
        snprintf(keys[i], sizeof *text, "%s", which & 1 ? "threads" : "quiet");
        snprintf(values[i], sizeof *text, "%d", which >> 1 & 1);
        if (which & 4) keys[i][next(&in, 1) % 8] = (char)next(&in, 1);
        if (which & 8)
            values[i][next(&in, 1) % 8] = (char)next(&in, 1), values[i][next(&in, 1) % 8] = (char)next(&in, 1);
    }
    keys[count] = (char *)"quiet", values[count] = (char *)"1", count++; /* it would speak at every input */
    reports = 0;
    tflite_delegate *delegate = tflite_plugin_create_delegate(keys, values, count, next(&in, 1) & 1 ? NULL : report);
    if (!delegate) return 0;
    need(!reports);
    for (int rounds = 0; rounds < 2 && in.at < in.end; rounds++) {
        fake_graph();
        change(&in);
        int status = apply(delegate);
        need(status == TFLITE_OK || status == TFLITE_ERROR);
        fake.fail_at = 0;
        if (!status && fake.has_kernel && runs_in_place()) run_kernel(delegate, &in);
    }
    tflite_plugin_destroy_delegate(delegate);
    return 0;
}
