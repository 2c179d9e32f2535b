/* Calls which() on CPU 1, whose file is not there; then again once the file argv[1] -> argv[2] has been renamed. */
#include "versioned.h"

int main(int argc, char **argv) {
    (void)argc;
    run_on(0);
    printf("cpu0 %d\n", which());
    printf("cpu1 in the table: %d\n", table_of_set[1]);
    if (rename(argv[1], argv[2])) return 1;
    run_on(1);
    printf("cpu1 %d\n", which());
    printf("cpu1 in the table: %d\n", table_of_set[1]);
    return 0;
}
