/* ONNX Runtime as a library of custom operators sees it: the functions of its interface that the library calls, each of
 * which may fail, and values, shapes and texts of any kind. */
#ifndef FUZZ_FAKE_ORT_H
#define FUZZ_FAKE_ORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_api.h"

enum { FAKE_RANK = 24, FAKE_VALUES = 4, FAKE_OPS = 4 };

struct OrtStatus {
    int code;
    char message[512];
};
struct OrtValue {
    int64_t dims[FAKE_RANK];
    size_t rank;
    void *data;
    int fails; /* its data cannot be had */
};
struct OrtTensorTypeAndShapeInfo {
    const ort_value *value;
};
struct OrtCustomOpDomain {
    const struct ort_custom_op *ops[FAKE_OPS];
    size_t count;
};

/* What the functions answer. fail_at: number of the call that fails, from 1; 0: none does. */
static struct fake_ort {
    int calls, fail_at, domains, oldest;
    const char *fingerprint, *threads; /* NULL: there is none */
    ort_value inputs[FAKE_VALUES], outputs[FAKE_VALUES];
    int absent[FAKE_VALUES]; /* inputs that are not given */
    const ort_domain *added;
} fake_ort;

static ort_status *fake_status(int code, const char *message) {
    ort_status *made = calloc(1, sizeof *made); /* of this program: it does not fail */
    if (!made) abort();
    made->code = code;
    snprintf(made->message, sizeof made->message, "%s", message);
    if (!*made->message) abort(); /* an error without words */
    return made;
}

static ort_status *fake_call(void) {
    return ++fake_ort.calls == fake_ort.fail_at ? fake_status(ORT_FAIL, "the runtime fails") : NULL;
}

static void fake_release_status(ort_status *status) { free(status); }

static ort_status *fake_create_domain(const char *name, ort_domain **domain) {
    ort_status *failed = name && *name ? fake_call() : fake_status(ORT_INVALID_ARGUMENT, "no name");
    if (failed) return failed;
    *domain = calloc(1, sizeof **domain);
    fake_ort.domains++;
    return NULL;
}

static ort_status *fake_domain_add(ort_domain *domain, const struct ort_custom_op *op) {
    ort_status *failed = fake_call();
    if (!failed && domain->count == FAKE_OPS) abort();
    if (!failed) domain->ops[domain->count++] = op;
    return failed;
}

static ort_status *fake_add_domain(ort_session_options *options, ort_domain *domain) {
    ort_status *failed = fake_call();
    (void)options;
    if (!failed) fake_ort.added = domain;
    return failed;
}

static void fake_release_domain(ort_domain *domain) {
    if (fake_ort.added == domain) fake_ort.added = NULL;
    fake_ort.domains--;
    free(domain);
}

static ort_status *fake_data(ort_value *value, void **data) {
    ort_status *failed = value->fails ? fake_status(ORT_FAIL, "no data") : fake_call();
    if (!failed) *data = value->data;
    return failed;
}

static ort_status *fake_shape(const ort_value *value, ort_shape **shape) {
    ort_status *failed = fake_call();
    if (failed) return failed;
    *shape = malloc(sizeof **shape);
    (*shape)->value = value;
    return NULL;
}

static void fake_release_shape(ort_shape *shape) { free(shape); }

static ort_status *fake_rank(const ort_shape *shape, size_t *rank) {
    ort_status *failed = fake_call();
    if (!failed) *rank = shape->value->rank;
    return failed;
}

static ort_status *fake_dims(const ort_shape *shape, int64_t *dims, size_t rank) {
    ort_status *failed = fake_call();
    for (size_t i = 0; !failed && i < rank && i < shape->value->rank; i++) dims[i] = shape->value->dims[i];
    return failed;
}

/* Copies a text as ONNX Runtime does: where there is no room, `size` is what is needed, and it is an error. */
static ort_status *fake_text(const char *from, char *text, size_t *size) {
    size_t needed = strlen(from) + 1, room = *size;
    *size = needed;
    if (room < needed) return fake_status(ORT_INVALID_ARGUMENT, "no room");
    memcpy(text, from, needed);
    return NULL;
}

static ort_status *fake_attribute(const ort_kernel_info *info, const char *name, char *text, size_t *size) {
    ort_status *failed = fake_call();
    (void)info;
    if (failed) return failed;
    if (!fake_ort.fingerprint || strcmp(name, "fingerprint")) return fake_status(ORT_FAIL, "no such attribute");
    return fake_text(fake_ort.fingerprint, text, size);
}

static ort_status *fake_input(const ort_kernel_context *context, size_t index, const ort_value **value) {
    ort_status *failed = fake_call();
    (void)context;
    if (!failed && index >= FAKE_VALUES) return fake_status(ORT_FAIL, "no such input");
    if (!failed) *value = fake_ort.absent[index] ? NULL : &fake_ort.inputs[index];
    return failed;
}

static ort_status *fake_output(ort_kernel_context *context, size_t index, const int64_t *dims, size_t rank,
                               ort_value **value) {
    ort_status *failed = fake_call();
    (void)context;
    if (failed) return failed;
    if (index >= FAKE_VALUES || rank > FAKE_RANK) abort();
    fake_ort.outputs[index].rank = rank;
    memcpy(fake_ort.outputs[index].dims, dims, rank * sizeof *dims);
    *value = &fake_ort.outputs[index];
    return NULL;
}

static ort_status *fake_has_entry(const ort_session_options *options, const char *key, int *there) {
    ort_status *failed = fake_call();
    (void)options;
    if (!failed) *there = fake_ort.threads != NULL && !strcmp(key, "mavcg.threads");
    return failed;
}

static ort_status *fake_entry(const ort_session_options *options, const char *key, char *value, size_t *size) {
    ort_status *failed = fake_call();
    (void)options;
    (void)key;
    return failed ? failed : fake_text(fake_ort.threads, value, size);
}

static const struct ort_api fake_api = {
    .create_status = fake_status,
    .create_custom_op_domain = fake_create_domain,
    .custom_op_domain_add = fake_domain_add,
    .add_custom_op_domain = fake_add_domain,
    .get_tensor_mutable_data = fake_data,
    .get_dimensions_count = fake_rank,
    .get_dimensions = fake_dims,
    .get_tensor_type_and_shape = fake_shape,
    .kernel_info_get_attribute_string = fake_attribute,
    .kernel_context_get_input = fake_input,
    .kernel_context_get_output = fake_output,
    .release_status = fake_release_status,
    .release_tensor_type_and_shape_info = fake_release_shape,
    .release_custom_op_domain = fake_release_domain,
    .has_session_config_entry = fake_has_entry,
    .get_session_config_entry = fake_entry,
};

static const struct ort_api *fake_get_api(uint32_t version) {
    return fake_ort.oldest && version > 1 ? NULL : &fake_api;
}
static const char *fake_version(void) { return "1.0.0"; }
static const struct ort_api_base fake_base = {fake_get_api, fake_version};

ort_status *RegisterCustomOps(ort_session_options *options, const struct ort_api_base *base);

#endif
