/* Built as a shared library: the function that late.c loads. */
#include "versioned.h"

__attribute__((visibility("default"))) int call_which(void) { return which(); }
