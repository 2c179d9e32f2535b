#include <stdexcept>
#include <string>
#include <vector>
#include <cstdio>
namespace { int counter = 3; thread_local int tl = 5; const int table[8] = {1,2,3,5,8,13,21,34}; const char *names[] = {"zero","one"};
 struct Guard { int v; Guard(int x): v(x) { counter += x; } ~Guard(){ counter--; } };
 __attribute__((noinline,cold)) void fail(int i) { throw std::out_of_range(std::string(names[i & 1])); }
 __attribute__((noinline)) int pick(int i) { return table[i & 7]; }
 int (*chosen)(int) = pick;
}
static Guard global_guard(7);
static double start = std::string("abc").size() * 1.5;
struct Shape { virtual ~Shape() {} virtual int area_hot(int n) const; int side = 4; static int made; Shape(); };
int Shape::made = 0;
Shape::Shape() { made++; }
int Shape::area_hot(int n) const { static int calls = 0; static Guard g(11); calls++; int s = 0; for (int i = 0; i < n; i++) s += side * i ^ table[i & 7]; return s + calls + g.v + counter + tl + chosen(n); }
__attribute__((noinline)) static long inner_hot(const int *a, int n) { static long total; long s = 0; for (int i = 0; i < n; i++) { if (a[i] < 0) fail(i); s += (long)a[i] * a[i]; } total += s; tl++; return s + total; }
long outer(const int *a, int n) { try { return inner_hot(a, n) + inner_hot(a + 1, n - 1) + counter; } catch (const std::exception &e) { counter += 100; return e.what()[0]; } }
template <class T> __attribute__((noinline)) T generic_hot(const std::vector<T> &v) { static T seen; T s{}; for (auto x : v) { if (x > 1000) throw std::runtime_error("big"); s += x * x; } seen += 1; return s + seen; }
double use(double x) { std::vector<double> v(33, x); try { return generic_hot(v) + start; } catch (...) { return -1; } }
int usei(int x) { std::vector<int> v(33, x); return generic_hot(v); }
double sums_hot(const double *a, int n) { double s = start; for (int i = 0; i < n; i++) s += a[i] * a[i]; start += 1; return s; }
Shape *make() { return new Shape; }
int main() {
  Shape *s = make(); int a[50]; for (int i = 0; i < 50; i++) a[i] = i * 3;
  double d[50]; for (int i = 0; i < 50; i++) d[i] = i * 0.1;
  for (int k = 0; k < 3; k++) {
    { int r1 = s->area_hot(20 + k); long r2 = outer(a, 50); double r3 = use(k * 1.1); int r4 = usei(k); double r5 = sums_hot(d, 50); std::printf("%d %d %ld %.17g %d %.17g %.17g\n", r1, Shape::made, r2, r3, r4, r5, start); }
    a[10 + k] = -1;
  }
  { double r = use(2000); std::printf("%g %d %d\n", r, counter, tl); }
  delete s; return 0; }
