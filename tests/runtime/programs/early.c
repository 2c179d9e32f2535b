/* Calls from the earliest places: an ifunc resolver, while the program is being relocated, and .preinit_array, before
 * any library's constructor. */
#include "versioned.h"

static int from_resolver, from_preinit;

static int plain(void) { return 0; }

static int (*resolve(void))(void) {
    from_resolver = which();
    return plain;
}

static int resolved(void) __attribute__((ifunc("resolve")));

static void first(void) { from_preinit = which(); }

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = first;

int main(void) {
    printf("resolver %d\n", from_resolver + resolved());
    printf("preinit %d\n", from_preinit);
    printf("main %d\n", which());
    printf("rseq %s\n", offset_of_set ? "on" : "off");
    return 0;
}
