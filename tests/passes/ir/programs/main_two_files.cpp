#include <cstdio>
float one(const float *, int), two(const float *, int);
const char *name_in_one(int), *name_in_two(int);
int main() {
    float a[50];
    for (int i = 0; i < 50; i++) a[i] = (float)(i % 7) * .3f;
    for (int n = 0; n < 50; n += 7) printf("%a %a %d\n", one(a, n), two(a, n), name_in_one(n) == name_in_two(n));
}
