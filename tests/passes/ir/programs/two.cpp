#include "shared.h"
static __attribute__((noinline)) int same_name(int x) { static int n = 5; return x + (n *= 3); }
float two(const float *a, int n) { return weighed(a, n) - same_name(n); }
const char *name_in_two(int x) { return named(x); }
