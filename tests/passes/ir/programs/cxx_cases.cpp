// What C++ functions hang on: guards, virtual tables, exceptions, thread-local objects, templates, comdats of groups.
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

struct Counted {
    static int made;
    int v;
    Counted(int x) : v(x) { made++; }
    ~Counted() {}
};
int Counted::made = 0;

inline Counted &of_inline(int x) { static Counted c(x); return c; }
int first_guard(int x) { static Counted c(x); return c.v + of_inline(x + 1).v; }
int second_guard(int x) { return first_guard(x) + of_inline(x + 2).v * 10; }

struct Base {
    virtual ~Base() {}
    virtual int f(int x) const { return x + 1; }
    virtual int g(int x) const { return f(x) * 2; }
};
struct Derived : Base {
    int k = 5;
    int f(int x) const override;
};
int Derived::f(int x) const { return x * k; }
struct Last final : Derived {
    int g(int x) const override { return x + 1000; }
};
int calls_virtual(const Base &b, int x) { return b.f(x) + b.g(x); }
int casts(Base *b) {
    Derived *d = dynamic_cast<Derived *>(b);
    return (d ? d->k : -1) + (typeid(*b) == typeid(Last) ? 100 : 0);
}
int (Base::*member)(int) const = &Base::f;
int calls_member(const Base &b, int x) { return (b.*member)(x); }

struct Error : std::runtime_error {
    int code;
    Error(int c) : std::runtime_error("error"), code(c) {}
};
namespace {
struct LocalError { int v; };
}
int throws(int x) {
    if (x == 1) throw Error(7);
    if (x == 2) throw LocalError{9};
    if (x == 3) throw std::string("text");
    return x;
}
int catches(int (*f)(int), int x) {
    Counted guard(x);
    try {
        return f(x);
    } catch (const Error &e) {
        return 100 + e.code;
    } catch (const LocalError &e) {
        return 200 + e.v;
    } catch (...) {
        return 300;
    }
}
int passes_on(int x) {
    try {
        return catches(throws, x) + throws(x);
    } catch (std::exception &) {
        return 1000;
    }
}

template <class T> T product(T a, T b) { static T sum = 1; sum += a; return a * b + sum; }
int uses_product(int x) { return product<int>(x, 3) + (int)product<double>(x, .5); }

thread_local std::string text = "abc";
thread_local Counted dynamic(3);
int thread_locals(int x) {
    thread_local Counted own(x);
    text += "x";
    return (int)text.size() + own.v + dynamic.v;
}

int lambdas(int x) {
    auto times = [&](int y) { return y * x; };
    std::function<int(int)> held = times;
    int s = 0;
    for (int e : std::vector<int>{1, 2, 3}) s += held(e);
    return s;
}

template <class T> struct Group { // constructors and destructors in groups, C5 and D5
    static int gone;
    T a;
    Group(T x) : a(x + 1) {}
    ~Group() { gone += (int)a; }
    __attribute__((noinline)) int get(int y) const { return a + y; }
};
template <class T> int Group<T>::gone = 0;
int groups(int x) {
    { Group<long> t(x); Group<int> u(x); x = t.get(1) + u.get(2); }
    return x + Group<long>::gone * 100 + Group<int>::gone * 1000;
}

int maps(int x) {
    std::map<std::string, int> m;
    for (int i = 0; i < x; i++) m[std::to_string(i % 7)] += i;
    int s = 0;
    for (auto &[k, v] : m) s = s * 31 + v + k[0];
    return s;
}
std::unique_ptr<Base> makes(int x) {
    if (x) return std::make_unique<Last>();
    return std::make_unique<Derived>();
}

int drive() {
    printf("guards %d %d %d\n", first_guard(1), second_guard(2), Counted::made);
    Base base;
    Derived derived;
    Last last;
    printf("virtual %d %d %d\n", calls_virtual(base, 3), calls_virtual(derived, 3), calls_virtual(last, 3));
    printf("casts %d %d %d %d\n", casts(&base), casts(&derived), casts(&last), calls_member(derived, 4));
    for (int i = 0; i < 5; i++) {
        int caught, passed;
        try {
            caught = throws(i);
        } catch (Error &e) {
            caught = -e.code;
        } catch (LocalError &e) {
            caught = -e.v;
        } catch (std::string &) {
            caught = -1000;
        }
        try {
            passed = passes_on(i);
        } catch (LocalError &) {
            passed = 2000;
        } catch (std::string &) {
            passed = 3000;
        }
        printf("exceptions %d %d %d\n", caught, catches(throws, i), passed);
    }
    printf("templates %d %d\n", uses_product(4), uses_product(5));
    printf("thread-locals %d %d\n", thread_locals(1), thread_locals(2));
    printf("lambdas %d groups %d\n", lambdas(4), groups(3));
    printf("maps %d made %d\n", maps(100), makes(1)->g(3) + makes(0)->g(3));
    return 0;
}
