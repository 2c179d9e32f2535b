"""A program of two files, whose time goes into smooth()."""

FILTER = """\
void smooth(const float *in, float *out, int n) {
    for (int i = 1; i < n - 1; i++) out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
}
"""
APP = """\
#include <stdio.h>
void smooth(const float *in, float *out, int n);
static float a[8192], b[8192];
int main(void) {
    for (int i = 0; i < 8192; i++) a[i] = (float)(i % 17);
    for (int round = 0; round < 30000; round++) smooth(a, b, 8192);
    printf("%f\\n", b[4000]);
}
"""
