/* A program that uses a model library by its C++ header; prints what went wrong, else "done". */
#include "exercise.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "other_model.hpp"

using mavcg_exercise::context;
static_assert(std::is_nothrow_move_constructible_v<context> && !std::is_copy_constructible_v<context>);

static std::array<float, 1000> x, y;
static std::array<std::int32_t, 1> ms;
static std::array<std::int32_t, 96> who;
static std::array<std::uint32_t, 96> modes;
static std::array<std::uint8_t, 96> intact;
static std::array<std::int32_t, 3> naps;

static int failures = 0;

static void expect(bool held, const char *what) {
    if (!held) std::printf("%s\n", what);
    failures += !held;
}

#ifdef MAVCG_EXCEPTIONS
template <class Call> static int result(Call call) {
    try {
        return call();
    } catch (const mavcg::error &error) {
        expect(error.what() == std::string(context::error_text(error.status())), "the error's text");
        return error.status();
    }
}
#else
template <class Call> static int result(Call call) { return call(); }
static_assert(std::is_nothrow_default_constructible_v<context>);
#endif

int main() {
    context first(2);
    expect(first && first.status() == MAVCG_OK && first.threads() == 2, "two threads");
    expect(first.run(x, ms, y, who, modes, intact, naps) == MAVCG_OK, "run");
    std::printf("%g\n", static_cast<double>(y[1]));

    context second(std::move(first));
    expect(!first && second && result([&] { return first.run(x, ms, y, who, modes, intact, naps); }) ==
               MAVCG_ERROR_NULL, "a context that was moved from");
    y = {};
    std::array<double, 64> ns{};
    const std::size_t steps = context::steps().size();
    expect(second.profile(std::span(ns).first(steps), x, ms, y, who, modes, intact, naps) == MAVCG_OK, "profile");
    expect(ns[0] > 0 && ns[steps] == 0, "nanoseconds of each step");
    std::printf("%g\n", static_cast<double>(y[1]));

    std::span<const float> less(x.data(), 999);
    expect(result([&] { return second.run(less, ms, y, who, modes, intact, naps); }) == MAVCG_ERROR_SIZE, "sizes");
    expect(result([&] { return second.profile(ns, x, ms, y, who, modes, intact, naps); }) == MAVCG_ERROR_SIZE ||
               steps == ns.size(), "one number for each step");
    expect(result([&] {
               return second.profile(std::span(ns).first(steps), less, ms, y, who, modes, intact, naps);
           }) == MAVCG_ERROR_SIZE, "sizes in a profile");
    expect(result([&] { return context(-1).status(); }) == MAVCG_ERROR_OPTION, "-1 threads");
    expect(second.cancel() == MAVCG_OK, "cancel");
    expect(context::inputs().size() == 2 && context::outputs().size() == 5, "tensors");

    mavcg_other_model::context other;
    expect(other.get() != nullptr, "another model");
    std::printf("%s\n", failures ? "failed" : "done");
    return failures != 0;
}
