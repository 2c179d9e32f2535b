/* Drop-in libraries under the runtimes of fuzz/c/fake_ort.h and fake_tflite.h: `drop_ins KIND LIBRARY THREADS`.
 *
 * KIND: custom_ops, delegate. An operation registers or creates, makes a kernel, runs it twice and gives everything back.
 * It is right where every result is, and refused where an error says so in words; then the same works with nothing
 * failing. */
#include "plan.h"

#include <dlfcn.h>

#define RegisterCustomOps (*register_custom_ops)
#define tflite_plugin_create_delegate (*create_delegate)
#define tflite_plugin_destroy_delegate (*destroy_delegate)
#include "fake_ort.h"
#define fake_call fake_tflite_call
#include "fake_tflite.h"
#undef fake_call
#include "fingerprint.h"

enum { ROWS = 512, IN = 64, OUT = 48, ELEMENTS = 4 * 4 * 3, RUNS = 2 };

static float x[ROWS * IN], y[ROWS * OUT], expected[ROWS * OUT];
static const char *threads;
static int said; /* an error in words */

static int taken(ort_status *failed) {
    if (!failed) return 0;
    said += *failed->message != 0;
    fake_release_status(failed);
    return 1;
}

/* Returns RIGHT, REFUSED or WRONG. keeps: the result becomes the expected one. */
static int run_custom_ops(int keeps) {
    void *kernel = NULL;
    int verdict = RIGHT, domains = fake_ort.domains;
    if (taken(register_custom_ops(NULL, &fake_base))) return fake_ort.domains == domains ? REFUSED : WRONG;
    const struct ort_custom_op *op = fake_ort.added->ops[0];
    if (taken(op->create_kernel_v2(op, &fake_api, NULL, &kernel))) return kernel ? WRONG : REFUSED;
    for (int run = 0; run < RUNS && verdict == RIGHT; run++) {
        fake_ort.inputs[0] = (ort_value){{ROWS, IN}, 2, x, 0};
        fake_ort.outputs[0] = (ort_value){{0}, 0, y, 0};
        memset(y, 0x5A, sizeof y);
        if (taken(op->kernel_compute_v2(kernel, NULL))) verdict = REFUSED;
        else if (keeps) memcpy(expected, y, sizeof y);
        else if (memcmp(expected, y, sizeof y)) verdict = WRONG;
    }
    op->kernel_destroy(kernel);
    return verdict;
}

static void hear(const char *text) { said += *text != 0; }

static int run_delegate(int keeps) {
    char *keys[] = {(char *)"quiet", (char *)"threads"}, *values[] = {(char *)"1", (char *)(uintptr_t)threads};
    tflite_delegate *delegate = create_delegate(keys, values, 2, hear);
    if (!delegate) return REFUSED;
    int verdict = RIGHT;
    fake_graph();
    if (delegate->prepare(&fake.context, delegate)) {
        said++; /* the interface has no words here */
        verdict = REFUSED;
    } else if (!fake.has_kernel) {
        verdict = fake.calls == 1 ? RIGHT : WRONG; /* the file could not be compared: the runtime keeps the graph */
    } else {
        tflite_delegate_params params = {delegate, (tflite_ints *)(void *)&fake.replaced, NULL, NULL};
        tflite_node node = {.user_data = fake.kernel.init(&fake.context, (const char *)&params, 0)};
        if (fake.kernel.prepare(&fake.context, &node)) verdict = REFUSED;
        for (int run = 0; run < RUNS && verdict == RIGHT; run++) {
            float *result = fake.places[FILE_OUTPUT];
            for (int i = 0; i < ELEMENTS; i++) fake.places[FILE_INPUT][i] = (float)(i % 11 - 5) * 0.25f;
            memset(result, 0x5A, ELEMENTS * sizeof *result);
            if (fake.kernel.invoke(&fake.context, &node)) verdict = REFUSED;
            else if (keeps) memcpy(expected, result, ELEMENTS * sizeof *result);
            else if (memcmp(expected, result, ELEMENTS * sizeof *result)) verdict = WRONG;
        }
        fake.kernel.free(&fake.context, node.user_data);
        said += fake.errors;
    }
    destroy_delegate(delegate);
    return verdict;
}

static int (*operation)(int keeps);

static int operate(void) {
    said = 0;
    arm(1);
    int verdict = operation(0);
    arm(0);
    if (verdict == REFUSED && !said) fprintf(stderr, "refused without a word\n");
    if (verdict == WRONG || (verdict == REFUSED && !said)) return WRONG;
    return operation(0) == RIGHT ? verdict : WRONG;
}

int main(int argc, char **argv) {
    char name[100];
    void *library = argc == 4 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "drop_ins KIND LIBRARY THREADS: %s\n", argc == 4 ? dlerror() : "arguments");
        return 2;
    }
    int is_delegate = !strcmp(argv[1], "delegate");
    fake_ort.threads = threads = argv[3], fake_ort.fingerprint = CUSTOM_OPS_FINGERPRINT;
    *(void **)&register_custom_ops = dlsym(library, "RegisterCustomOps");
    *(void **)&create_delegate = dlsym(library, "tflite_plugin_create_delegate");
    *(void **)&destroy_delegate = dlsym(library, "tflite_plugin_destroy_delegate");
    operation = is_delegate ? run_delegate : run_custom_ops;
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i % 13 - 6) * 0.25f;
    if (operation(1) != RIGHT || operation(0) != RIGHT) {
        fprintf(stderr, "drop_ins %s: it does not run\n", argv[1]);
        return 2;
    }
    snprintf(name, sizeof name, "%s, %s thread%s", is_delegate ? "delegate" : "custom operators", threads,
             *threads == '1' ? "" : "s");
    return try_all(name, operate) ? 1 : 0;
}
