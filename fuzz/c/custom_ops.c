/* A library of custom operators under an ONNX Runtime that answers anything and fails at any call: registration, kernels
 * and runs. What must hold: errors have words and are the only ones, nothing is leaked or freed twice, and a run with
 * inputs of a size that the library has gives the right bits; with others it is refused.
 *
 * The model has x [1 or 4, 64] and y [1 or 4, 48]. */
#include "fake_ort.h"
#include "fingerprint.h"
#include "guarded.h"

enum { IN = 64, OUT = 48, LARGE = 4, MOST_RUNS = 4, NAMED = 10 };

static struct guarded memory[2];
static char fingerprint[128];
static float expected[LARGE * OUT];
static int is_ready;

/* Registers the operators; returns the first one, or NULL where that fails. */
static const struct ort_custom_op *register_ops(void) {
    int domains = fake_ort.domains;
    fake_ort.added = NULL;
    ort_status *failed = RegisterCustomOps(NULL, &fake_base);
    if (failed) {
        need(fake_ort.domains == domains);
        fake_release_status(failed);
        return NULL;
    }
    need(fake_ort.added && fake_ort.added->count == 1);
    return fake_ort.added->ops[0];
}

/* A registration lives as long as the library: each kind that succeeds is made once, so that the memory of a run stays the
 * same, of which the search for leaks takes time. text: number of the text of threads, or NAMED for one of the input's. */
static const struct ort_custom_op *registered(int text) {
    static const struct ort_custom_op *kept[NAMED];
    if (fake_ort.oldest || fake_ort.fail_at || text == NAMED) return register_ops();
    if (!kept[text]) kept[text] = register_ops();
    return kept[text];
}

static void fill(int64_t rows, int at_end) {
    ort_value *x = &fake_ort.inputs[0], *y = &fake_ort.outputs[0];
    float *values = array_in(memory[0], (size_t)rows * IN * sizeof *values, at_end);
    for (int64_t i = 0; i < rows * IN; i++) values[i] = (float)(i % 13 - 6) * 0.25f;
    *x = (ort_value){{rows, IN}, 2, values, 0};
    *y = (ort_value){{0}, 0, array_in(memory[1], (size_t)rows * OUT * sizeof(float), at_end), 0};
    fake_ort.absent[0] = 0;
    memset(y->data, 0x5A, (size_t)rows * OUT * sizeof(float));
}

/* Returns 0, or 1 where it is refused. */
static int compute(const struct ort_custom_op *op, void *kernel) {
    ort_status *failed = op->kernel_compute_v2(kernel, NULL);
    int refused = failed != NULL;
    if (failed) fake_release_status(failed);
    return refused;
}

static void run(struct bytes *in, const struct ort_custom_op *op, void *kernel) {
    int how = (int)next(in, 1);
    int64_t rows = how & 1 ? LARGE : 1;
    fill(rows, how >> 1 & 1);
    ort_value *x = &fake_ort.inputs[0];
    fake_ort.calls = 0, fake_ort.fail_at = how & 4 ? (int)next(in, 1) % 16 : 0;
    int good = 1;
    if (how & 8) {
        x->rank = (size_t)next(in, 1) % FAKE_RANK;
        for (size_t i = 0; i < x->rank; i++) x->dims[i] = (int64_t)next(in, how & 16 ? 8 : 1);
        good = x->rank == 2 && x->dims[0] == rows && x->dims[1] == IN;
        /* What would be right for other memory is not what is here. */
        if (!good && x->rank == 2 && x->dims[1] == IN && (x->dims[0] == 1 || x->dims[0] == LARGE)) return;
    }
    if (how & 32) fake_ort.absent[0] = 1, good = 0;
    if (how & 64) x->fails = 1, good = 0;
    int refused = compute(op, kernel), failed = fake_ort.fail_at && fake_ort.calls >= fake_ort.fail_at;
    need(refused == (!good || failed));
    if (!refused) need(!memcmp(fake_ort.outputs[0].data, expected, (size_t)rows * OUT * sizeof(float)));
}

static void *kernel_of(const struct ort_custom_op *op) {
    void *kernel = &memory;
    ort_status *failed = op->create_kernel_v2(op, &fake_api, NULL, &kernel);
    need((failed != NULL) == (kernel == NULL));
    if (failed) fake_release_status(failed);
    return kernel;
}

/* Registers once with nothing failing, so that there is a right result. */
static void prepare(void) {
    memory[0] = guarded_memory(LARGE * IN * sizeof(float)), memory[1] = guarded_memory(LARGE * OUT * sizeof(float));
    fake_ort.fingerprint = CUSTOM_OPS_FINGERPRINT;
    snprintf(fingerprint, sizeof fingerprint, "%s", CUSTOM_OPS_FINGERPRINT);
    const struct ort_custom_op *op = registered(0);
    need(op && op->get_input_type_count(op) == 1 && op->get_output_type_count(op) == 1);
    need(op->get_input_type(op, 0) == 1 && op->get_output_type(op, 0) == 1 && *op->get_name(op));
    void *kernel = kernel_of(op);
    fill(LARGE, 0);
    need(kernel && !compute(op, kernel));
    memcpy(expected, fake_ort.outputs[0].data, sizeof expected);
    op->kernel_destroy(kernel);
    is_ready = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    static const char *const threads[NAMED] = {NULL, "1", "2", "0", "1025", "x", "", "12345678901234567", " 1", "+1"};
    if (!is_ready) prepare();
    int how = (int)next(&in, 1), number = how & 15;
    char text[24] = "";
    for (size_t i = 0; number >= NAMED && i < 1 + (size_t)number; i++) text[i] = (char)next(&in, 1);
    fake_ort.threads = number < NAMED ? threads[number] : text;
    fake_ort.oldest = (how & 0x70) == 0x70;
    fake_ort.calls = 0, fake_ort.fail_at = how & 0x80 ? (int)next(&in, 1) % 8 : 0;
    const struct ort_custom_op *op = registered(number < NAMED ? number : NAMED);
    fake_ort.oldest = 0;
    if (!op) return 0;
    char other[160];
    int changes = (int)next(&in, 1);
    snprintf(other, sizeof other, "%s", fingerprint);
    if (changes & 1) other[next(&in, 1) % (strlen(other) + 1)] = (char)next(&in, 1);
    if (changes & 2) memset(other, 'f', sizeof other - 1), other[sizeof other - 1] = 0;
    fake_ort.fingerprint = changes & 4 ? NULL : other;
    fake_ort.calls = 0, fake_ort.fail_at = changes & 8 ? 1 : 0;
    int valid = fake_ort.fingerprint && !strcmp(other, fingerprint) && !fake_ort.fail_at;
    void *kernel = kernel_of(op);
    need(valid == (kernel != NULL));
    for (int runs = 0; kernel && runs < MOST_RUNS && in.at < in.end; runs++) run(&in, op, kernel);
    op->kernel_destroy(kernel);
    return 0;
}
