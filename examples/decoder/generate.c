/* Continues a text of token numbers by the most likely next one: ./generate COUNT TOKEN.. */
#include <stdio.h>
#include <stdlib.h>

#include "decoder.h"

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s COUNT TOKEN..\n", argv[0]);
        return 2;
    }
    decoder_options options = {.threads = 1};
    decoder_context *context;
    int status = decoder_create(&options, &context);
    size_t outputs_count;
    size_t words = decoder_outputs(&outputs_count)[0].bytes / sizeof(float);
    float *scores = malloc(words * sizeof(float));
    int64_t token = 0;
    int prompt = argc - 2, count = atoi(argv[1]);
    for (int32_t last = 0; status == MAVCG_OK && last < prompt + count - 1; last++) {
        if (last < prompt) token = atoll(argv[2 + last]);
        int32_t total = last + 1;
        const void *inputs[] = {&token, &last, &total}; /* the caches are states of the context */
        void *outputs[] = {scores};
        status = decoder_run(context, inputs, outputs);
        if (status != MAVCG_OK || last < prompt - 1) continue;
        token = 0;
        for (size_t word = 1; word < words; word++)
            if (scores[word] > scores[token]) token = (int64_t)word;
        printf("%s%lld", last == prompt - 1 ? "" : " ", (long long)token);
    }
    printf("\n");
    if (status != MAVCG_OK) fprintf(stderr, "%s\n", decoder_error_text(status));
    free(scores);
    decoder_destroy(context);
    return status != MAVCG_OK;
}
