/* Which version each core runs on machines that hide something: a line of input is "MIDR NAME WORD WORD WORD WORD", the
 * words of AT_HWCAP and AT_HWCAP2; the answer is the id by MIDR_EL1, then by the core's name in a map. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t offered_words[4];

void offered_here(uint32_t *words) {
    memset(words, 0, 7 * sizeof *words);
    memcpy(words, offered_words, sizeof offered_words);
}

#include "runtime.c"

int main(void) {
    char name[64];
    uint32_t midr, *w = offered_words;
    while (scanf("%x %63s %x %x %x %x", &midr, name, &w[0], &w[1], &w[2], &w[3]) == 6) {
        bool is_known;
        unsigned by_name = core_id(&core_set, name, strlen(name), &is_known);
        printf("%u %u\n", core_of_midr(&this_machine, &core_set, midr), by_name);
    }
    return 0;
}
