/* lengths INPUTS OUTPUTS LENGTH...: runs a library over x [1, LENGTH, width] once for each length, in one context.

   INPUTS: the inputs' bytes one after the other; OUTPUTS gets the outputs' likewise. */
#include <stdio.h>
#include <stdlib.h>

#include "net.h"

#define NEED(truth) \
    if (!(truth)) return fprintf(stderr, "line %d\n", __LINE__), 1

int main(int argc, char **argv) {
    net_context *context;
    net_options options = {.threads = 2};
    FILE *in = argc > 3 ? fopen(argv[1], "rb") : NULL, *out = argc > 3 ? fopen(argv[2], "wb") : NULL;
    NEED(in && out && !net_create(&options, &context));
    for (int i = 3; i < argc; i++) {
        const int64_t shape[] = {1, atoi(argv[i]), net_inputs(NULL)[0].dims[2]}, *dims[] = {shape};
        NEED(!net_set_shape(context, dims));
        const mavcg_tensor *x = net_context_inputs(context), *y = net_context_outputs(context);
        void *read = malloc(x->bytes), *made = malloc(y->bytes);
        const void *inputs[] = {read};
        void *outputs[] = {made};
        NEED(fread(read, 1, x->bytes, in) == x->bytes);
        NEED(!net_run(context, inputs, outputs) && fwrite(made, 1, y->bytes, out) == y->bytes);
        free(read), free(made);
    }
    net_destroy(context);
    return fclose(out);
}
