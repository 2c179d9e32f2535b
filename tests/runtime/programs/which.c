/* Prints the version that runs before main, in main, and on each CPU that is named as an argument. */
#include "versioned.h"

static int early;

__attribute__((constructor(101))) static void before_main(void) { early = which(); }

int main(int argc, char **argv) {
    printf("early %d\n", early);
    printf("main %d\n", which());
    for (int i = 1; i < argc; i++) {
        run_on(atoi(argv[i]));
        printf("cpu%s %d\n", argv[i], which());
    }
    printf("rseq %s\n", offset_of_set ? "on" : "off");
    return 0;
}
