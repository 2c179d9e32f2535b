/* Lengths of a model's bounded dimensions: shapes of any kind, with runs between them. What must hold: a shape within the
 * bounds is taken and any other refused by MAVCG_ERROR_SIZE or _NULL, a refused one leaves the one before, tensors are
 * described with the lengths, and a run has the results of the rows that there are and touches nothing after them.
 *
 * The input is a list of calls: a byte says which, those after it how. The model: x [batch 1..6, rows 1..20, 16] times a
 * constant, relu, softmax over 24. */
#include "engine_api.h"
#include "guarded.h"

enum { BATCH = 6, ROWS = 20, IN = 16, OUT = 24, MOST_CALLS = 24 };

static const mavcg_model_table *model;
static struct guarded memory[2];
static float expected[OUT];
static void *context;
static int64_t batch, rows;

static int create(int threads) {
    const mavcg_options options = {threads, 0, {0, 0}};
    model->destroy(context);
    context = NULL, batch = BATCH, rows = ROWS;
    return model->create(&options, &context);
}

static void check_description(void) {
    const mavcg_tensor *in = model->context_inputs(context), *out = model->context_outputs(context);
    need(in->rank == 3 && in->dims[0] == batch && in->dims[1] == rows && in->dims[2] == IN);
    need(out->rank == 3 && out->dims[0] == batch && out->dims[1] == rows && out->dims[2] == OUT);
    need(in->bytes == (size_t)(batch * rows * IN) * sizeof(float));
    need(out->bytes == (size_t)(batch * rows * OUT) * sizeof(float));
}

/* A row's values depend on where it lies, so that one that is taken for another shows. */
static void fill(float *row, int64_t number) {
    for (int i = 0; i < IN; i++) row[i] = (float)((number * 7 + i * 5) % 13 - 6) * 0.25f;
}

static void run(struct bytes *in) {
    int how = (int)next(in, 1);
    size_t in_bytes = (size_t)(batch * rows * IN) * sizeof(float), out_bytes = in_bytes / IN * OUT;
    float *x = array_in(memory[0], in_bytes, how & 1), *y = array_in(memory[1], out_bytes, how >> 1 & 1);
    const void *inputs[] = {x};
    void *outputs[] = {y};
    for (int64_t row = 0; row < batch * rows; row++) fill(x + row * IN, row % 13);
    memset(y, 0x5A, out_bytes);
    int status;
    if (how & 4) {
        size_t odd_in = in_bytes + (how & 8 ? (size_t)next(in, 2) : 0),
               odd_out = out_bytes + (how & 16 ? (size_t)next(in, 2) : 0);
        status = model->run_sized(context, inputs, &odd_in, outputs, &odd_out);
        need(status == (odd_in == in_bytes && odd_out == out_bytes ? MAVCG_OK : MAVCG_ERROR_SIZE));
    } else {
        status = model->run(context, inputs, outputs);
        need(status == MAVCG_OK);
    }
    if (status) return;
    for (int64_t row = 0; row < batch * rows; row++) {
        double sum = 0;
        for (int i = 0; i < OUT; i++) sum += y[row * OUT + i];
        need(sum > 0.9999 && sum < 1.0001);
        /* Rows of equal values have equal bits, whatever the shape. */
        if (row % 13 == 0) need(!memcmp(y + row * OUT, expected, sizeof expected));
    }
}

static void set_shape(struct bytes *in) {
    int how = (int)next(in, 1);
    int64_t dims[3] = {(int64_t)next(in, 1) % (BATCH + 2), (int64_t)next(in, 1) % (ROWS + 2), IN};
    if (how & 1) dims[how >> 1 & 1] = (int64_t)next(in, 8);
    if (how & 4) dims[2] = (int64_t)next(in, how & 8 ? 8 : 1);
    const int64_t *const list[] = {how & 16 ? NULL : dims};
    int valid = !(how & 48) && dims[0] >= 1 && dims[0] <= BATCH && dims[1] >= 1 && dims[1] <= ROWS && dims[2] == IN;
    int status = model->set_shape(context, how & 32 ? NULL : list);
    need(status == (valid ? MAVCG_OK : how & 48 ? MAVCG_ERROR_NULL : MAVCG_ERROR_SIZE));
    if (valid) batch = dims[0], rows = dims[1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    if (!model) {
        float x[BATCH * ROWS * IN], y[BATCH * ROWS * OUT];
        const void *inputs[] = {x};
        void *outputs[] = {y};
        model = mavcg_model_api();
        need(model->dimension_count == 2);
        memory[0] = guarded_memory(sizeof x), memory[1] = guarded_memory(sizeof y);
        for (int row = 0; row < BATCH * ROWS; row++) fill(x + row * IN, row % 13);
        need(!create(1) && !model->run(context, inputs, outputs));
        memcpy(expected, y, sizeof expected);
    }
    need(!create(1 + (size & 1)));
    for (int calls = 0; calls < MOST_CALLS && in.at < in.end; calls++) {
        switch (next(&in, 1) & 7) {
        case 0:
        case 1:
        case 2: set_shape(&in); break;
        case 3: need(!create(1 + (int)next(&in, 1) % 2)); break;
        case 4: need(model->cancel(context) == MAVCG_OK); break;
        default: run(&in);
        }
        check_description();
    }
    return 0;
}
