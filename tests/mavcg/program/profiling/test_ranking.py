"""The ranking and the choice of functions: shares, core types, the threshold, what cannot be cloned."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.program.profiling.clonable import is_nameless, why_not_clonable
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.ranking import MIN_CORE_RECORDS, hot, rank
from mavcg.program.profiling.sample_table import sample_frame

Make = Callable[..., Profile]


def test_shares_are_of_everything_and_best_first(make_profile: Make) -> None:
    profile = make_profile(
        ("f", "app", None, 20),
        ("memcpy", "libc.so.6", None, 30),
        ("g", "app", None, 10),
        ("x", "[kernel.kallsyms]", None, 40),
    )
    ranked = rank(profile)
    assert [(f.symbol, f.share) for f in ranked] == [("x", 0.4), ("memcpy", 0.3), ("f", 0.2), ("g", 0.1)]
    assert [f.clonable for f in ranked] == [False, False, True, True]
    assert ranked[0].why_not == "kernel code" and ranked[2].why_not == ""
    assert [f.symbol for f in hot(profile)] == ["f", "g"]


def test_pieces_and_versions_of_a_function_are_one(make_profile: Make) -> None:
    profile = make_profile(
        ("_ZN2nn4reluEPfi.isra.0", "app", None, 3),
        ("_ZN2nn4reluEPfi.cold", "app", None, 1),
        ("_ZN2nn4reluEPfi.cortex-a55", "app", None, 2),
        ("_ZN2nn4reluEPfi", "other", None, 4),
    )
    ranked = rank(profile)
    assert [(f.symbol, f.object, f.share) for f in ranked] == [
        ("_ZN2nn4reluEPfi", "app", 0.6),
        ("_ZN2nn4reluEPfi", "other", 0.4),
    ]
    assert {f.demangled for f in ranked} == {"nn::relu(float*, int)"}


def test_threshold_is_exclusive_and_max_functions_counts_the_clonable(make_profile: Make) -> None:
    profile = make_profile(*((f"f{n}", "app", None, n) for n in (50, 25, 20, 5)))
    assert [f.symbol for f in hot(profile, 0.05)] == ["f50", "f25", "f20"]
    assert [f.symbol for f in hot(profile, 0.0499)] == ["f50", "f25", "f20", "f5"]
    assert [f.symbol for f in hot(profile, 0.05, max_functions=1)] == ["f50"]
    assert hot(profile, 0.05, max_functions=0) == ()
    assert hot(profile, 1.0) == ()


def test_hot_on_one_core_type_only(make_profile: Make) -> None:
    enough = MIN_CORE_RECORDS
    profile = make_profile(
        ("f", "app", "exynos-m4", 100 * enough),
        ("g", "app", "cortex-a55", enough / 2),
        ("f", "app", "cortex-a55", enough / 2),
    )
    by_symbol = {f.symbol: f for f in rank(profile)}
    assert by_symbol["g"].share < 0.05
    assert by_symbol["g"].share_by_core == {"cortex-a55": 0.5, "exynos-m4": 0.0}
    assert [f.symbol for f in hot(profile)] == ["f", "g"]


def test_a_core_type_with_few_samples_does_not_decide(make_profile: Make) -> None:
    rows = (("f", "app", "exynos-m4", 10000), ("g", "app", "cortex-a55", MIN_CORE_RECORDS - 1))
    assert [f.symbol for f in hot(make_profile(*rows))] == ["f"]


def test_nameless_samples_are_one_row_per_object(make_profile: Make) -> None:
    profile = make_profile(("0x0000000000003844", "app", None, 1), ("[unknown]", "app", None, 2), ("f", "app", None, 7))
    assert [(f.symbol, f.share, f.clonable) for f in rank(profile)] == [("f", 0.7, True), ("[unknown]", 0.3, False)]


@pytest.mark.parametrize(
    ("symbol", "object_", "why"),
    [
        ("f", "/home/me/app", ""),
        ("f", "app", ""),
        ("f", "", ""),
        ("f", "/data/app/~~x==/com.me/lib/arm64/libtflite.so", ""),
        ("main", "/usr/bin/app", ""),
        ("do_syscall_64", "[kernel.kallsyms]", "kernel code"),
        ("x", "[guest.kernel.kallsyms.5]", "kernel code"),
        ("x", "/lib/modules/6.1.0/kernel/fs/ext4.ko.xz", "kernel code"),
        ("__vdso_clock_gettime", "[vdso]", "not in a file: [vdso]"),
        ("f", "[unknown]", "not in a file: [unknown]"),
        ("f", "/tmp/perf-12.map", "not in a file: /tmp/perf-12.map"),
        ("[unknown]", "app", "no function name: build it with symbols (not stripped)"),
        ("0x13f3", "app", "no function name: build it with symbols (not stripped)"),
        ("libfoo.so[+13f3]", "libfoo.so", "no function name: build it with symbols (not stripped)"),
        ("memcpy@plt", "app", "a linker's stub, not a function of the program"),
        ("_start", "app", "start-up code of the C library"),
        ("(below main)", "app", "start-up code of the C library"),
        ("memcpy", "libc.so.6", "system library libc.so.6: not built from the program's sources"),
        (
            "memcpy",
            "/usr/lib/x86_64-linux-gnu/libc-2.31.so",
            "system library libc-2.31.so: not built from the program's sources",
        ),
        ("x", "/usr/lib/libfoo.so", "system library libfoo.so: not built from the program's sources"),
        ("x", "ld-linux-aarch64.so.1", "system library ld-linux-aarch64.so.1: not built from the program's sources"),
        (
            "x",
            "/apex/com.android.runtime/lib64/bionic/libc.so",
            "system library libc.so: not built from the program's sources",
        ),
        ("x", "/data/l/libc++_shared.so", "system library libc++_shared.so: not built from the program's sources"),
        ("x", "libcalc.so", ""),
        ("x", "libmodel.so", ""),
    ],
)
def test_why_not_clonable(symbol: str, object_: str, why: str) -> None:
    assert why_not_clonable(symbol, object_) == why


@pytest.mark.parametrize("name", ["decade", "f00d", "add", "0x", "abcdef"])
def test_hex_looking_names_are_names(name: str) -> None:
    assert not is_nameless(name)


ROWS = st.dictionaries(
    st.tuples(
        st.sampled_from(["f", "g", "f.cold", "memcpy", "[unknown]"]),
        st.sampled_from(["app", "libc.so.6", "[kernel.kallsyms]"]),
        st.none(),
        st.sampled_from([None, "cortex-a55", "exynos-m4"]),
    ),
    st.integers(1, 10**6).map(lambda n: [float(n), float(n)]),
    min_size=1,
)


@given(ROWS)
def test_shares_sum_to_one_in_all_and_per_core(
    rows: dict[tuple[str, str, int | None, str | None], list[float]],
) -> None:
    ranked = rank(Profile(sample_frame(rows), "samples", "cycles"))
    assert sum(f.share for f in ranked) == pytest.approx(1)
    assert [f.samples for f in ranked] == sorted((f.samples for f in ranked), reverse=True)
    for core in {key[3] for key in rows if key[3]}:
        assert sum(f.share_by_core[core] for f in ranked) == pytest.approx(1)
