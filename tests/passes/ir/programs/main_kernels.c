/* Calls every kernel with many lengths, and prints a hash of the bits that come back. Any NaN counts as the same. */
#include <stdio.h>
#include <string.h>

float dot(const float *, const float *, int);
void gemm(const float *, const float *, float *, int);
void softmax(const float *, float *, int);
float mixed(const float *, const signed char *, const int *, int);
double converted(const unsigned long *, const long *, float *, int);
float half_sum(const _Float16 *, const _Float16 *, _Float16 *, const int *, int);
int int8_dot(const signed char *, const signed char *, int);
float largest(const float *, float *, int);
float polynomial(const float *, float *, int);
void complex_product(const float *, const float *, float *, int);

enum { COUNT = 200, SQUARE = 40 * 40 };
static float a[SQUARE], b[SQUARE], c[SQUARE];
static signed char q[COUNT], r[COUNT];
static int z[COUNT];
static _Float16 h[COUNT], k[COUNT], out[COUNT];
static unsigned long u[COUNT];
static long l[COUNT];

static unsigned long next(void) {
    static unsigned long state = 88172645463325252ul;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void fill(int special) {
    for (int i = 0; i < SQUARE; i++) {
        a[i] = (float)(next() % 20001) / 1000.0f - 10.0f;
        b[i] = (float)(next() % 20001) / 777.0f - 12.0f;
        if (special && next() % 3 == 0) a[i] = next() & 1 ? 0.0f : -0.0f;
        if (special == 2) a[i] = next() & 1 ? 0.0f : -0.0f;
    }
    for (int i = 0; i < COUNT; i++) {
        q[i] = (signed char)next(), r[i] = (signed char)next();
        z[i] = (int)next() >> next() % 20;
        h[i] = (_Float16)a[i], k[i] = (_Float16)b[i];
        u[i] = next() >> next() % 60, l[i] = (long)next() >> next() % 60;
    }
}

static void show(const char *name, double value, const float *values, int n) {
    unsigned long hash = 7;
    for (int i = 0; i < n; i++) {
        unsigned bits = 0x7fc00000;
        if (values[i] == values[i]) memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3ul;
    }
    if (value != value) printf("%s nan %lx\n", name, hash);
    else printf("%s %a %lx\n", name, value, hash);
}

int main(void) {
    for (int special = 0; special < 3; special++) {
        fill(special);
        for (int n = 1; n < COUNT; n += special ? 33 : 11) {
            int side = n / 5 + 1;
            show("dot", dot(a, b, n), 0, 0);
            memcpy(c, b, sizeof c), gemm(a, b, c, side), show("gemm", 0, c, side * side);
            softmax(a, c, n), show("softmax", 0, c, n);
            show("mixed", mixed(a, q, z, n), 0, 0);
            show("converted", converted(u, l, c, n), c, n);
            for (int i = 0; i < n; i++) out[i] = (_Float16)b[i];
            double sum = half_sum(h, k, out, z, n);
            for (int i = 0; i < n; i++) c[i] = (float)out[i];
            show("half_sum", sum, c, n);
            show("int8_dot", int8_dot(q, r, n), 0, 0);
            double most = largest(a + n % 7, c, n);
            show("largest", most, c, n);
            double inverse = polynomial(a, c, n);
            show("polynomial", inverse, c, n);
            complex_product(a, b, c, n / 2), show("complex_product", 0, c, n / 2 * 2);
        }
    }
}
