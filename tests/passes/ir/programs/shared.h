// A template, an inline function and their statics, as two files see them.
struct Tally { int made = 0; };
template <class T> __attribute__((noinline)) T weighed(const T *a, int n) {
    static Tally tally;
    T s = 0;
    for (int i = 0; i < n; i++) s += a[i] * (T)(i + 1);
    return s + (T)(1000 * ++tally.made);
}
inline __attribute__((noinline)) const char *named(int x) { static const char text[] = "in one place"; return text + x % 3; }
