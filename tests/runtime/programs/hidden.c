/* Which version each core runs on machines that hide something: a line of input is "MIDR VENDOR FAMILY MODEL NAME WORDS",
 * with the 7 words of AT_HWCAP and AT_HWCAP2, or of CPUID and XCR0; the answer is the id by MIDR_EL1, or for a MIDR of 0
 * by vendor, family and model, then by the core's name in a map. With an argument the system refuses AMX's tiles; the
 * last line is how often they were asked for. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t offered_words[7];

void offered_here(uint32_t *words) { memcpy(words, offered_words, sizeof offered_words); }

static bool refuses_tiles;
static unsigned asked;

bool tiles_here(void) {
    asked++;
    return !refuses_tiles;
}

#include "runtime.c"

int main(int argc, char **argv) {
    refuses_tiles = argc > 1 && argv[1];
    char name[64];
    uint32_t midr, vendor, family, model, *w = offered_words;
    while (scanf("%x %u %u %u %63s", &midr, &vendor, &family, &model, name) == 5 &&
           scanf("%x %x %x %x %x %x %x", &w[0], &w[1], &w[2], &w[3], &w[4], &w[5], &w[6]) == 7) {
        bool is_known;
        struct x86_identity cpu = {(uint8_t)vendor, (uint16_t)family, (uint16_t)model};
        unsigned by_name = core_id(&core_set, name, strlen(name), &is_known);
        unsigned id = core_of_x86(&this_machine, &core_set, cpu, X86_NO_KIND);
        if (midr) id = core_of_midr(&this_machine, &core_set, midr);
        printf("%u %u\n", id, by_name);
    }
    printf("%u\n", asked);
    return 0;
}
