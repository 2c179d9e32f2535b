/* Built as a shared library: the functions that late.c loads. */
#include "versioned.h"

__attribute__((visibility("default"))) int call_which(void) { return which(); }

__attribute__((visibility("default"))) int has_rseq(void) { return offset_of_set != 0; }
