/* Model libraries, those of several sizes and applications, by their tables: `models KIND LIBRARY THREADS`.
 *
 * KIND: model, sizes, application. An operation creates, runs, changes shapes, saves and restores states, profiles,
 * cancels and destroys. It is right where every result is, and refused where a status says so; afterwards, with nothing
 * failing, the same context, or a new one, must have the right result. */
#include <dlfcn.h>

#include "application_api.h"
#include "engine_api.h"
#include "plan.h"
#include "sizes_api.h"

enum { MOST_TENSORS = 8, MOST_DIMS = 8, FRAMES = 5 };

struct arrays {
    void *inputs[MOST_TENSORS], *outputs[MOST_TENSORS], *expected[MOST_TENSORS];
};

static int threads;
static const mavcg_model_table *tables[MOST_TENSORS];
static struct arrays arrays[MOST_TENSORS];
static int table_count;
static const mavcg_app_table *application;

#define NEED(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return WRONG;                                                   \
        }                                                                   \
    } while (0)

/* A status of a system that lacks something: documented, and no fault of the caller. */
static int is_refusal(int status) {
    return status == MAVCG_ERROR_MEMORY || status == MAVCG_ERROR_THREADS || status == MAVCG_AGAIN;
}

static void fill(const mavcg_model_table *model, struct arrays *a) {
    for (uint32_t i = 0; i < model->input_count; i++) {
        a->inputs[i] = calloc(1, model->inputs[i].bytes);
        float *values = a->inputs[i];
        if (model->inputs[i].type == MAVCG_F32)
            for (size_t k = 0; k < model->inputs[i].bytes / 4; k++) values[k] = (float)(k % 23) * 0.125f - 1;
    }
    for (uint32_t i = 0; i < model->output_count; i++) {
        a->outputs[i] = calloc(1, model->outputs[i].bytes);
        a->expected[i] = calloc(1, model->outputs[i].bytes);
    }
}

static int is_right(const mavcg_model_table *model, const struct arrays *a) {
    for (uint32_t i = 0; i < model->output_count; i++)
        if (memcmp(a->outputs[i], a->expected[i], model->outputs[i].bytes)) return 0;
    return 1;
}

static void forget(const mavcg_model_table *model, const struct arrays *a) {
    for (uint32_t i = 0; i < model->output_count; i++) memset(a->outputs[i], 0x5A, model->outputs[i].bytes);
}

static int run(const mavcg_model_table *model, void *context, struct arrays *a) {
    forget(model, a);
    return model->run(context, (const void *const *)a->inputs, a->outputs);
}

/* Sets every bounded dimension to its least length, runs, and sets the longest again. */
static int change_shapes(const mavcg_model_table *model, void *context, struct arrays *a) {
    int64_t shapes[MOST_TENSORS][MOST_DIMS];
    const int64_t *least[MOST_TENSORS], *most[MOST_TENSORS];
    for (uint32_t i = 0; i < model->input_count; i++) {
        most[i] = model->inputs[i].dims, least[i] = shapes[i];
        for (int d = 0; d < model->inputs[i].rank; d++)
            shapes[i][d] = most[i][d] == model->dimensions[0].most ? model->dimensions[0].least : most[i][d];
    }
    int status = model->set_shape(context, least);
    if (status == MAVCG_OK) status = run(model, context, a);
    int back = model->set_shape(context, most);
    return status ? status : back;
}

/* Saves the states, runs, and restores them: the run after that is as the first. */
static int turn_states(const mavcg_model_table *model, void *context, struct arrays *a) {
    size_t bytes = model->state_size(context);
    char *saved = malloc(bytes);
    int status = model->reset(context);
    if (status == MAVCG_OK) status = model->state_save(context, saved, bytes);
    if (status == MAVCG_OK) status = run(model, context, a);
    if (status == MAVCG_OK) status = model->state_restore(context, saved, bytes);
    free(saved);
    return status;
}

static int use(const mavcg_model_table *model, void *context, struct arrays *a) {
    double *step_ns = calloc(model->step_count, sizeof *step_ns);
    int status = MAVCG_OK;
    if (model->dimension_count) status = change_shapes(model, context, a);
    if (status == MAVCG_OK && model->state_count) status = turn_states(model, context, a);
    if (status == MAVCG_OK) status = run(model, context, a);
    int wrong = status == MAVCG_OK && !is_right(model, a);
    if (status == MAVCG_OK && model->state_count) status = model->reset(context);
    if (status == MAVCG_OK && !wrong) {
        forget(model, a);
        status = model->profile(context, (const void *const *)a->inputs, a->outputs, step_ns);
        wrong = status == MAVCG_OK && !is_right(model, a);
    }
    free(step_ns);
    return wrong ? 1000 : status;
}

static int operate(const mavcg_model_table *model, struct arrays *a) {
    const mavcg_options options = {threads, MAVCG_PIN, {0, 0}};
    void *context = (void *)a;
    arm(1);
    int created = model->create(&options, &context), status = created;
    NEED((created == MAVCG_OK) == (context != NULL) && (created == MAVCG_OK || is_refusal(created)));
    if (created == MAVCG_OK) {
        status = use(model, context, a);
        NEED(status == MAVCG_OK || is_refusal(status));
        NEED(model->cancel(context) == MAVCG_OK);
    }
    arm(0);
    if (created != MAVCG_OK) NEED(model->create(&options, &context) == MAVCG_OK);
    if (model->state_count) NEED(model->reset(context) == MAVCG_OK);
    if (model->dimension_count) NEED(change_shapes(model, context, a) == MAVCG_OK);
    NEED(run(model, context, a) == MAVCG_OK && is_right(model, a));
    model->destroy(context);
    return status == MAVCG_OK ? RIGHT : REFUSED;
}

static int operate_models(void) {
    int verdict = RIGHT;
    for (int i = 0; i < table_count && verdict != WRONG; i++) {
        int own = operate(tables[i], &arrays[i]);
        if (own > verdict) verdict = own;
    }
    return verdict;
}

/* Frames through a network's pipeline, and a cancel in the end. */
static int pass_frames(void *made, uint32_t network, struct arrays *a) {
    int status = MAVCG_OK, in = 0, out = 0, wrong = 0;
    void *frame;
    forget(tables[network], a);
    while (status == MAVCG_OK && out < FRAMES) {
        if (in < FRAMES) {
            status = application->push(made, network, (const void *const *)a->inputs, a->outputs, &in, 0);
            if (status == MAVCG_OK) {
                in++;
                continue;
            }
            if (status != MAVCG_AGAIN) break;
        }
        if (in == out) break; /* the first frame is not taken */
        status = application->pop(made, network, &frame, 10000);
        if (status == MAVCG_OK) out++, wrong |= !is_right(tables[network], a);
    }
    application->cancel_frames(made, network);
    while (out < in) {
        int popped = application->pop(made, network, &frame, 10000);
        if (popped != MAVCG_OK && popped != MAVCG_CANCELLED && !is_refusal(popped)) return 1000;
        if (popped == MAVCG_AGAIN) return 1001; /* a frame that never comes back */
        out++;
    }
    return wrong ? 1000 : status;
}

static int use_application(void *made) {
    int status = MAVCG_OK;
    for (uint32_t i = 0; i < application->network_count && status == MAVCG_OK; i++) {
        void *context = application->context(made, i);
        NEED(context != NULL);
        if (application->networks[i].stage_count) status = pass_frames(made, i, &arrays[i]);
        if (status == MAVCG_OK) status = run(tables[i], context, &arrays[i]);
        if (status == MAVCG_OK && !is_right(tables[i], &arrays[i])) return 1000;
    }
    return status;
}

static int operate_application(void) {
    const mavcg_options options = {threads, 0, {0, 0}};
    void *made = &arrays;
    arm(1);
    int created = application->create(&options, &made), status = created;
    NEED((created == MAVCG_OK) == (made != NULL) && (created == MAVCG_OK || is_refusal(created)));
    if (created == MAVCG_OK) {
        status = use_application(made);
        if (status != MAVCG_OK && !is_refusal(status)) fprintf(stderr, "status %d\n", status);
        NEED(status == MAVCG_OK || is_refusal(status));
    }
    arm(0);
    if (created != MAVCG_OK) NEED(application->create(&options, &made) == MAVCG_OK);
    int after = use_application(made);
    if (after) fprintf(stderr, "afterwards: status %d\n", after);
    NEED(after == MAVCG_OK);
    application->destroy(made);
    return status == MAVCG_OK ? RIGHT : REFUSED;
}

/* Finds the tables, and what is right: the result of one thread. */
static int prepare(const char *kind, void *library) {
    const mavcg_app_table *(*app_api)(void) = dlsym(library, "mavcg_app_api");
    const mavcg_sizes_table *(*sizes_api)(void) = dlsym(library, "mavcg_sizes_api");
    const mavcg_model_table *(*model_api)(void) = dlsym(library, "mavcg_model_api");
    if (!strcmp(kind, "application")) {
        application = app_api();
        table_count = (int)application->network_count;
        for (int i = 0; i < table_count; i++) tables[i] = application->networks[i].model;
    } else if (!strcmp(kind, "sizes")) {
        table_count = (int)sizes_api()->count;
        for (int i = 0; i < table_count; i++) tables[i] = sizes_api()->models[i];
    } else {
        table_count = 1, tables[0] = model_api();
    }
    const mavcg_options one = {1, 0, {0, 0}};
    void *made = NULL;
    if (application) NEED(application->create(&one, &made) == MAVCG_OK);
    for (int i = 0; i < table_count; i++) {
        void *context = made ? application->context(made, (uint32_t)i) : NULL;
        fill(tables[i], &arrays[i]);
        if (!made) NEED(tables[i]->create(&one, &context) == MAVCG_OK);
        NEED(run(tables[i], context, &arrays[i]) == MAVCG_OK);
        for (uint32_t k = 0; k < tables[i]->output_count; k++)
            memcpy(arrays[i].expected[k], arrays[i].outputs[k], tables[i]->outputs[k].bytes);
        if (!made) tables[i]->destroy(context);
    }
    if (made) application->destroy(made);
    return RIGHT;
}

int main(int argc, char **argv) {
    char name[100];
    void *library = argc == 4 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "models KIND LIBRARY THREADS: %s\n", argc == 4 ? dlerror() : "arguments");
        return 2;
    }
    threads = atoi(argv[3]);
    if (prepare(argv[1], library) != RIGHT) return 2;
    const char *slash = strrchr(argv[2], '/'); /* libengine.so is called engine */
    int length = (int)strlen(slash ? slash + 1 : argv[2]) - 6;
    snprintf(name, sizeof name, "%.*s, %d thread%s", length, (slash ? slash + 1 : argv[2]) + 3, threads,
             threads == 1 ? "" : "s");
    return try_all(name, application ? operate_application : operate_models) ? 1 : 0;
}
