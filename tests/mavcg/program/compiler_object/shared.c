#include <stdio.h>
#include <string.h>
static int counter = 1, never_written = 7, write_only;
static __thread int tl = 2;
static const int table[] = {5, 4, 3, 2, 1, 0, 9, 8};
static int backing[] = {1, 2, 3, 4}, *literal = backing;
static const char *const names[] = {"a", "bb", "ccc"};
int shared_global; extern int other;
__attribute__((cold, noinline)) static int coldly(int x) { static int n; n += x; counter++; return n; }
__attribute__((noinline)) static int clone_hot(const int *a, int n, int k) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * k; return s + (k == 3 ? counter : 0); }
int one(const int *a) { return clone_hot(a, 20, 3); }
int two(const int *a) { return clone_hot(a, 30, 3); }
int same_hot(const int *a, int n) { int s = 1; for (int i = 0; i < n; i++) s = s * 3 ^ a[i]; return s; }
int same_cold(const int *a, int n) { int s = 1; for (int i = 0; i < n; i++) s = s * 3 ^ a[i]; return s; }
int locals_hot(const int *a, int n) { static int n_calls, total; static int seen[4]; n_calls++; seen[n_calls & 3]++; for (int i = 0; i < n; i++) total += a[i] * table[i & 7]; literal[1] += 2; write_only++; shared_global++; tl += n_calls; if (n > 1000) coldly(n); return total + n_calls + seen[1] + never_written + (int)strlen(names[n % 3]) + literal[1] + (int)strlen(__func__); }
int locals_cold(int n) { static int n_calls, total; n_calls += 5; total += n; return n_calls + total + literal[1] + counter + tl + coldly(1) + (int)strlen(__func__); }
__attribute__((visibility("hidden"))) int hidden_hot(const short *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s + locals_cold(1); }
__attribute__((weak)) int weak_hot(const short *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s; }
extern int aliased(const short *, int) __attribute__((alias("hidden_hot")));
static int (*volatile table_of[])(const int *, int) = {same_hot, same_cold, locals_hot};
int leafy_hot(int x) { int v[8]; for (int i = 0; i < 8; i++) v[i] = x * i; int s = 0; for (int i = 0; i < 8; i++) s += v[(x + i) & 7]; return s; }
int keeps(int a, int b, int c, int d) { int e = a * b, f = c * d, g = a ^ d; int r = leafy_hot(a); return r + e * f - g + leafy_hot(b) * c + d; }
double fp_hot(const double *a, const double *b, int n) { double s = 0, t = 1; for (int i = 0; i < n; i++) { double p = a[i] * b[i]; s += p; t = t * 0.999 + a[i] / (b[i] + 1); } return s + t; }
double fp_cold(const double *a, const double *b, int n) { double s = 0; for (int i = 0; i < n; i++) { double p = a[i] * b[i]; s += p; } return s; }
int main() {
  int a[64]; short h[64]; double d[64], e[64]; for (int i = 0; i < 64; i++) { a[i] = i * 37 - 100; h[i] = i * 11; d[i] = i / 7.0; e[i] = 3.0 / (i + 1); }
  for (int k = 0; k < 4; k++) {
    printf("%d ", one(a)); printf("%d ", two(a)); printf("%d ", same_hot(a, 40)); printf("%d ", same_cold(a, 40)); printf("%d ", locals_hot(a, 40 + k)); printf("%d ", locals_cold(k));
    printf("%d ", hidden_hot(h, 60)); printf("%d ", aliased(h, 50)); printf("%d ", weak_hot(h, 30)); printf("%d ", locals_hot(a, k)); printf("%d ", keeps(k, 3, 4, 5));
    for (int j = 0; j < 3; j++) printf("%d ", table_of[j](a, 10));
    printf("%d %d %d %.17g %.17g\n", counter, tl, shared_global, fp_hot(d, e, 64), fp_cold(d, e, 64));
  }
  return 0; }
