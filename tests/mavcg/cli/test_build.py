"""`mavcg build` as a user meets it: the build file, options over it, the report, and nothing half-done on errors."""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import exported_symbols, imports_of, loaded_bytes

CXX = """\
#include <cstddef>
namespace nn {
template <typename T> struct Gemm {
    __attribute__((noinline)) T operator()(const T *a, const T *b, std::size_t n) const {
        T s{};
        for (std::size_t i = 0; i < n; i++) s += a[i] * b[i];
        return s;
    }
};
}  // namespace nn
extern "C" int entry(const int *a, const int *b, unsigned long n) { return nn::Gemm<int>()(a, b, n); }
"""
PROFILE = """\
app 1 [000] 1.0: 80 cycles: 10 dot+0x4 (/data/app)
app 1 [000] 1.1: 20 cycles: 10 elsewhere+0x4 (/data/app)
"""


@pytest.fixture
def build_file(kernel: Path, cores: Sequence[str]) -> Path:
    """mavcg.toml beside kernel.c."""
    path = kernel.with_name("mavcg.toml")
    path.write_text(
        f'[build]\noutput = "lib.so"\nsources = ["kernel.c"]\nhot = ["dot"]\ncores = ["{cores[0]}", "{cores[1]}"]\n'
    )
    return path


def document(ended: Any) -> Any:
    assert ended.status == 0, ended.stderr
    return json.loads(ended.stdout)


def test_no_arguments_build_what_the_file_names(mavcg: Any, build_file: Path, cores: Sequence[str]) -> None:
    ended = mavcg("build")

    assert ended.status == 0 and ended.stderr == ""
    library = ctypes.CDLL(str(build_file.with_name("lib.so")))
    assert library.dot((ctypes.c_short * 3)(1, 2, 3), (ctypes.c_short * 3)(4, 5, 6), 3) == 32
    assert library.cool(4) == 5
    text = " ".join(ended.stdout.split())
    for word in ("dot generic", *cores, "any other core", "code growth", "run-time selector"):
        assert word in text


def test_json_is_the_report_and_nothing_else(mavcg: Any, build_file: Path, cores: Sequence[str]) -> None:
    ended = mavcg("build", "--json")
    report = document(ended)

    assert ended.stderr == ""
    (function,) = report["functions"]
    assert (function["name"], function["demangled"], function["why"]) == ("dot", "dot", "named")
    assert function["dispatched"] is True and function["arithmetic"] == "exact"
    assert [v["core"] for v in function["versions"]] == ["generic", *cores]
    assert all(v["bytes"] > 0 and v["dropped"] is None for v in function["versions"])
    assert report["cores"] == list(cores) and report["refused"] == [] and report["not_found"] == []
    assert report["loaded_bytes"] == loaded_bytes(build_file.with_name("lib.so"))
    assert report["libraries"] == imports_of(build_file.with_name("lib.so"))[0]
    assert report["needed"] == imports_of(build_file.with_name("lib.so"))[1]
    assert 0 < report["runtime_bytes"] < report["loaded_bytes"] and report["growth_percent"] > 0


def test_options_win_over_the_file(mavcg: Any, build_file: Path, cores: Sequence[str]) -> None:
    report = document(mavcg("build", "--hot", "cool", "--cores", cores[1], "-o", "other.so", "--json"))
    assert [f["name"] for f in report["functions"]] == ["cool"] and report["cores"] == [cores[1]]
    assert Path("other.so").is_file() and not Path("lib.so").exists()


def test_paths_of_the_file_are_relative_to_it_and_those_of_options_to_here(
    mavcg: Any, build_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = build_file.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert mavcg("build", "../mavcg.toml").status == 0
    assert build_file.with_name("lib.so").is_file()

    (elsewhere / "mine.c").write_text("int dot(void) { return 2; }\n")
    assert mavcg("build", "../mavcg.toml", "--source", "mine.c", "-o", "mine.so").status == 0
    assert ctypes.CDLL(str(elsewhere / "mine.so")).dot() == 2


def test_named_sources_make_the_file_in_this_folder_not_count(mavcg: Any, build_file: Path) -> None:
    ended = mavcg("build", "--source", "kernel.c", "-o", "x.so")
    assert ended.status == 2 and "build: no cores are named" in ended.stderr


def test_the_same_input_builds_the_same_bytes(mavcg: Any, build_file: Path) -> None:
    assert mavcg("build").status == 0
    first = Path("lib.so").read_bytes()
    assert mavcg("build", "-j", "1").status == 0
    assert Path("lib.so").read_bytes() == first


def test_a_source_that_does_not_compile(mavcg: Any, build_file: Path, kernel: Path) -> None:
    kernel.write_text("int dot(int x) { return undeclared + x; }\n")
    for before in (None, b"an older library"):
        if before:
            Path("lib.so").write_bytes(before)
        ended = mavcg("build", "--json")
        assert (ended.status, ended.stdout) == (2, "")
        assert "kernel.c" in ended.stderr and "use of undeclared identifier 'undeclared'" in ended.stderr
        assert (Path("lib.so").read_bytes() if before else None) == before
        assert not [p for p in os.listdir() if p not in ("lib.so", "mavcg.toml", "kernel.c")]


@pytest.mark.parametrize(
    ("hot", "message"),
    [
        ("dto", "--hot dto: no input defines a function of that name; did you mean dot?"),
        ("dot,", "--hot 'dot,': holds an empty name"),
        ("zz*", "--hot zz*: no input defines"),
    ],
)
def test_a_hot_function_that_is_not_there(mavcg: Any, build_file: Path, hot: str, message: str) -> None:
    ended = mavcg("build", "--hot", hot)
    assert ended.status == 2 and message in ended.stderr and not Path("lib.so").exists()


@pytest.mark.parametrize(
    "hot", ["nn::Gemm<int>::operator()(int const*, int const*, unsigned long) const", "Gemm", "nn::Gemm<*"]
)
@pytest.mark.sample(2)
def test_cxx_names_as_people_write_them(mavcg: Any, here: Path, cores: Sequence[str], hot: str) -> None:
    (here / "k.cpp").write_text(CXX)
    report = document(mavcg("build", "--source", "k.cpp", "--hot", hot, "--cores", cores[0], "-o", "k.so", "--json"))
    (function,) = report["functions"]
    assert function["name"] == "_ZNK2nn4GemmIiEclEPKiS3_m"
    assert function["demangled"].startswith("nn::Gemm<int>::operator()(")
    three = (ctypes.c_int * 3)(1, 2, 3)
    assert ctypes.CDLL(str(here / "k.so")).entry(three, three, ctypes.c_ulong(3)) == 14


def test_a_profile_says_what_is_hot(mavcg: Any, build_file: Path) -> None:
    build_file.write_text(build_file.read_text().replace('hot = ["dot"]', 'profile = "perf.txt"'))
    Path("perf.txt").write_text(PROFILE)
    report = document(mavcg("build", "--json"))
    assert [(f["name"], f["why"]) for f in report["functions"]] == [("dot", "80.0% of the run")]
    assert report["not_found"] == ["elsewhere"]
    assert "not in the input, left as it is: elsewhere (20.0% of the run)" in mavcg("build").stdout

    Path("perf.txt").write_text(PROFILE.replace("dot", "other"))
    ended = mavcg("build")
    assert ended.status == 2
    assert "nothing to version: none of the hot functions is defined in the input; add the sources" in ended.stderr


def test_an_object_to_link_elsewhere(mavcg: Any, build_file: Path, run_program: Any) -> None:
    assert mavcg("build", "-o", "k.o").status == 0
    assert {"dot", "cool"} <= exported_symbols(Path("k.o"))
    Path("main.c").write_text(
        "int dot(const short *, const short *, int); short a[] = {1, 2}; int main(void) { return dot(a, a, 2); }\n"
    )
    # Another compiler where there is one: ziglang would first make its libraries for this kind of link.
    linker = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    assert run_program(*linker, "main.c", "k.o", "-o", "app").status == 0
    assert run_program("./app").status == 5


@pytest.mark.long
def test_a_board_of_another_machine(mavcg: Any, kernel: Path) -> None:
    report = document(
        mavcg("build", "--source", "kernel.c", "--hot", "dot", "--board", "exynos9820", "-o", "k.so", "--json")
    )
    assert report["target"].startswith("aarch64-linux")
    runs_on = {v["core"]: v["runs_on"] for v in report["functions"][0]["versions"]}
    assert runs_on == {
        "generic": "any other core",
        "cortex-a55": "CPUs 0-3",
        "cortex-a75": "CPUs 4-5",
        "exynos-m4": "CPUs 6-7",
    }


def test_measured_gains_and_growth_drop_versions(
    mavcg: Any, build_file: Path, cores: Sequence[str], tmp_path: Path
) -> None:
    from mavcg.program.measurements import Measurement, save_measurements

    gains = [
        Measurement("dot", core, "cycles", (100.0,), (own,), 500, 500, 0.9)
        for core, own in zip(cores, (99.5, 60.0), strict=True)
    ]
    save_measurements(gains, tmp_path / "gains.json")
    report = document(mavcg("build", "--measurements", "gains.json", "--json"))
    dropped = {v["core"]: v["dropped"] for v in report["functions"][0]["versions"]}
    assert dropped["generic"] is None and dropped[cores[1]] is None
    assert "+0.5% over generic (measured, 1 runs" in dropped[cores[0]]

    assert "dropped, runs generic: +0.5% over generic" in " ".join(
        mavcg("build", "--measurements", "gains.json").stdout.split()
    )
    none = document(mavcg("build", "--max-growth", "0", "--json"))
    assert all("would exceed --max-growth 0 %" in v["dropped"] for v in none["functions"][0]["versions"][1:])
    assert none["growth_percent"] == 0 and none["functions"][0]["dispatched"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cores", "CORE,FOREIGN"], "a library has one architecture"),
        (["--cores", ""], "--cores '': has an empty name; give names with commas between"),
        (["--cores", "CORE,,CORE"], "has an empty name"),
        (["--cores", "nosuch"], "--cores nosuch: no such core"),
        (["--board", "nosuch"], "--board nosuch: no such board"),
        (["-o", "absent/lib.so"], "absent/lib.so: the folder "),
        (["-o", "lib.txt"], "names neither a shared library (.so) nor an object (.o)"),
        (["--compiler", "no-such-clang"], "no-such-clang is not there; install it or name another"),
        (["--threshold", "101", "--profile", "perf.txt"], "--threshold 101: is not a share in percent"),
        (["-j", "0"], "Invalid value for '-j'"),
        (["--max-functions", "0"], "Invalid value for '--max-functions'"),
        (["absent.toml"], "absent.toml: cannot be read"),
    ],
)
def test_faults_are_exit_code_2(
    mavcg: Any, build_file: Path, cores: Sequence[str], arguments: list[str], message: str
) -> None:
    from mavcg.toolchain.target import host_target

    foreign = "cortex-a55" if host_target().arch == "x86_64" else "haswell"
    Path("perf.txt").write_text(PROFILE)
    ended = mavcg(
        "build", *(a.replace("CORE,FOREIGN", f"{cores[0]},{foreign}").replace("CORE", cores[0]) for a in arguments)
    )
    assert (ended.status, ended.stdout) == (2, "") and message in ended.stderr
    assert not Path("lib.so").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("filter.c", "source code"), ("gemm.S", "source code"), ("x.cpp", "source code"), ("kernels.ll", "LLVM IR")],
)
def test_code_in_place_of_a_build_file_is_refused_with_its_option(name: str, kind: str, mavcg: Any, here: Path) -> None:
    (here / name).write_text("int f(void) { return 0; }\n")
    option = "--ir" if kind == "LLVM IR" else "--source"
    ended = mavcg("build", name)
    assert ended.status == 2
    assert f"{name}: is {kind}, not a build file; give it with {option} {name}" in " ".join(ended.stderr.split())
