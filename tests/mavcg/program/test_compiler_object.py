"""Versions beside gcc's own object: cold functions stay gcc's, and every variable stays one object."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import CannotRun
from mavcg.objects.elf import function_symbols, notes, open_elf
from mavcg.program.compiler_object import contraction, rounding_as_gcc
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.to_assembly import gcc_version

# Programs whose hot and cold functions share statics of every kind: of files and functions, thread-local, constant,
# with constructors, in templates; they print what is in them.
PROGRAMS = Path(__file__).parent / "compiler_object"
WHOLE = "cold functions of this file are made by clang, too"


@pytest.fixture
def launch(mavcg: Any, here: Path, cores: Sequence[str], gcc: object) -> Any:
    names = ", ".join(f'"{core}"' for core in cores)
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["*hot*"]\ncores = [{names}]\nruntime = "static"\n')
    for name in ("shared.c", "shared.cpp"):
        shutil.copy(PROGRAMS / name, here)

    def run(driver: str, *words: str) -> str:
        ended = mavcg("launch", "--strict", driver, *words)
        assert ended.status == 0, ended.stderr
        return str(ended.stderr)

    return run


def check_same_output(launch: Any, run_program: Any, driver: str, source: str, flags: Sequence[str]) -> str:
    """The launched object prints what gcc's own does, with versions; its line."""
    assert run_program(driver, *flags, "-c", source, "-o", "plain.o").status == 0
    said = launch(driver, *flags, "-c", source, "-o", "made.o")
    for name in ("plain", "made"):
        assert run_program(driver, *flags, f"{name}.o", "-o", name).status == 0, (said, name)
    plain, made = run_program("./plain"), run_program("./made", MAVCG_TRACE="1")
    assert (made.status, made.stdout) == (0, plain.stdout)
    assert made.stderr.count("mavcg: ") >= 2
    return str(said)


@pytest.mark.parametrize(("driver", "source"), [("gcc", "shared.c"), ("g++", "shared.cpp")])
@pytest.mark.parametrize(
    "flags",
    [
        "-O2",
        *(
            pytest.param(flags, marks=pytest.mark.long)
            for flags in (
                "-O3 -fPIC -fno-semantic-interposition -g",
                "-O0 -g",
                "-O1 -fno-pie -no-pie",
                "-Os -ffunction-sections -fdata-sections",
                "-O2 -flto -ffat-lto-objects",
                "-O3 -funroll-loops",
            )
        ),
    ],
)
@pytest.mark.sample(1)
def test_statics_stay_one_object(launch: Any, run_program: Any, driver: str, source: str, flags: str) -> None:
    assert WHOLE not in check_same_output(launch, run_program, driver, source, flags.split())


def code_of(path: Path, function: str) -> tuple[bytes, list[int]]:
    """The bytes of a function that has a section of its own, and where they are relocated."""
    elf = open_elf(path)
    section = elf.get_section_by_name(f".text.{function}")
    relocations = elf.get_section_by_name(f".rela.text.{function}")
    return section.data(), [r["r_offset"] for r in relocations.iter_relocations()] if relocations else []


@pytest.mark.long
def test_cold_functions_have_gccs_own_code(launch: Any, here: Path, run_program: Any) -> None:
    flags = ["-O2", "-ffunction-sections", "-c", "shared.c", "-o"]
    assert run_program("gcc", *flags, "plain.o").status == 0
    launch("gcc", *flags, "made.o")
    for name in ("fp_cold", "same_cold", "unlikely.coldly"):
        assert code_of(here / "made.o", name) == code_of(here / "plain.o", name), name
    assert not any(".plain" in name for name, _ in function_symbols(here / "made.o"))  # gcc's own code of hot ones


CALLS_BACK = """\
static int twisted(int x) { return x + 1; }
int leaf_hot(const short *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s; }
int keeps(const short *a, int b, int c, int d) {
    int e = b * c, f = c ^ d;
    int r = leaf_hot(a, b & 31);
    return twisted(r) + e * f + leaf_hot(a, c & 31) * d + e - f + b + c;
}
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["-O2", "-O1", "-O3"])
def test_gccs_callers_expect_no_more_of_hot_functions_than_the_abi_says(
    launch: Any, here: Path, run_program: Any, level: str
) -> None:
    """gcc keeps values over calls in registers that its own code of a callee leaves alone: versions use them."""
    (here / "calls.c").write_text(CALLS_BACK)
    (here / "main.c").write_text(
        "#include <stdio.h>\nint keeps(const short *, int, int, int);\nint main(void) { short a[32]; "
        "for (int i = 0; i < 32; i++) a[i] = i * 9 - 70; "
        'for (int i = 0; i < 50; i++) printf("%d\\n", keeps(a, i, i * 3, 7 - i)); }\n'
    )
    flags = [level, "-fno-inline", "-c", "calls.c", "-o"]
    assert run_program("gcc", *flags, "plain.o").status == 0
    assert "leaf_hot (generic" in launch("gcc", *flags, "made.o")
    for name in ("plain", "made"):
        assert run_program("gcc", "main.c", f"{name}.o", "-o", name).status == 0
    assert run_program("./made").stdout == run_program("./plain").stdout


LOOP = "{ int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s%s; }\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (  # gcc knows the pointer, clang's versions would get a literal of their own
            "static int *p = (int[]){1, 2, 3};\nint next(void) { return p[0]++; }\n"
            "int dot_hot(const short *a, int n) " + LOOP % " + p[0]++",
            ".compoundliteral may be __compound_literal.0 of the compiler's object",
        ),
        (
            "int dot_hot(const short *a, int n) " + LOOP % "" + '__asm__(".symver dot_hot, dot_hot@V1");\n',
            "dot_hot is named by .symver",
        ),
    ],
)
def test_where_it_cannot_be_the_whole_object_is_clangs_and_that_is_said(
    launch: Any, here: Path, source: str, reason: str
) -> None:
    (here / "odd.c").write_text(source)
    said = launch("gcc", "-O2", "-c", "odd.c")
    assert f"note: {WHOLE}, not by gcc: {reason}" in said and notes(here / "odd.o")


@pytest.mark.parametrize("flag", ["-fprofile-generate", "-fprofile-arcs", "--coverage", "-gsplit-dwarf"])
@pytest.mark.sample(2)
def test_options_that_name_files_after_the_output_are_said(launch: Any, here: Path, flag: str) -> None:
    (here / "odd.c").write_text("int dot_hot(const short *a, int n) " + LOOP % "")
    assert f"{WHOLE}, not by gcc: {flag} binds a file's code to its output" in launch("gcc", "-O2", flag, "-c", "odd.c")


def test_what_gcc_inlined_is_said(launch: Any, here: Path) -> None:
    (here / "in.cpp").write_text(
        "namespace nn { int dot_hot(const short *a, int n) " + LOOP % "" + "}\n"
        "int twice(const short *a) { return nn::dot_hot(a, 30); }\n"
    )
    assert "note: gcc inlined nn::dot_hot(short const*, int) into twice: that copy stays gcc's" in launch(
        "g++", "-O3", "-c", "in.cpp"
    )


def test_several_statics_of_one_name_are_told_apart_by_who_uses_them(launch: Any, here: Path, run_program: Any) -> None:
    (here / "two.c").write_text(
        "int first_hot(const short *a, int n) { static int calls = 10; calls++; "
        + LOOP[1:] % " + calls"
        + "int second(void) { static int calls = 500; return calls++; }\n#include <stdio.h>\n"
        "int main(void) { short a[40] = {3, 4}; for (int i = 0; i < 3; i++) { int b = second(); "
        'printf("%d %d\\n", first_hot(a, 40), b); } }\n'
    )
    assert run_program("gcc", "-O2", "-fno-inline", "two.c", "-o", "plain").status == 0
    assert WHOLE not in launch("gcc", "-O2", "-fno-inline", "-c", "two.c")
    assert run_program("gcc", "two.o", "-o", "made").status == 0
    assert run_program("./made").stdout == run_program("./plain").stdout == "36 500\n37 501\n38 502\n"


def unit(line: str) -> CompileUnit:
    command_unit = read_command(line.split(), Path("/p"))
    assert isinstance(command_unit, CompileUnit)
    return command_unit


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("gcc -c x.c", "fast"),
        ("gcc -std=gnu11 -c x.c", "fast"),
        ("gcc -std=c11 -c x.c", "off"),
        ("gcc -ansi -c x.c", "off"),
        ("gcc -std=c99 -std=gnu99 -c x.c", "fast"),
        ("gcc -std=c11 -ffast-math -c x.c", "fast"),
        ("g++ -std=c++17 -c x.cpp", "fast"),
        ("gcc -std=c11 -ffp-contract=fast -c x.c", "fast"),
        ("gcc -ffp-contract=off -c x.c", "off"),
    ],
)
def test_gccs_rule_of_contraction(gcc: object, run_program: Any, here: Path, line: str, rule: str) -> None:
    assert contraction(unit(line)) == rule
    assert ("-ffp-contract=off" in rounding_as_gcc(unit(line)).flags) == (rule == "off")


SUMS = """\
double dot_hot(const double *a, const double *b, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) { double p = a[i] * b[i]; s += p; }
    return s * (double)(1ll << (n & 31)); /* shlx is beyond -mfma: a version with it stays */
}
"""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-O2", ""),
        ("-O2 -mfma", "dot_hot: gcc fuses products and sums over statements (-ffp-contract=fast)"),
        ("-O2 -mfma -ffp-contract=off", ""),
        ("-O2 -mfma -std=c11", ""),
        ("-O2 -ffast-math", "dot_hot: fast-math lets gcc and clang round differently"),
    ],
)
@pytest.mark.sample(2)
def test_what_may_round_otherwise_than_gcc_is_said(launch: Any, here: Path, flags: str, said: str) -> None:
    from mavcg.toolchain.target import host_target

    if host_target().arch != "x86_64":
        flags, said = flags.replace(" -mfma", ""), said if "fma" not in flags else ""
    (here / "sums.c").write_text(SUMS)
    line = launch("gcc", *flags.split(), "-c", "sums.c")
    assert said in line if said else "differ" not in line


def test_a_gcc_that_cannot_be_started_is_not_taken_for_a_clang(
    here: Path, cores: Sequence[str], gcc: object, mavcg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the object would be clang's, without a word: rounding and inline assembly could be others."""
    with pytest.raises(CannotRun, match="is not there"):
        gcc_version((str(here / "gcc"),))

    def refuse(*_: object) -> str:
        raise CannotRun("querying the compiler's macros: gcc cannot be run: Permission denied")

    monkeypatch.setattr("mavcg.program.sources.to_assembly.kept_answer", refuse)
    gcc_version.cache_clear()
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["hot"]\ncores = ["{cores[0]}"]\n')
    (here / "a.c").write_text("float hot(float x) { return x; }\n")
    assert mavcg("launch", "gcc", "-c", "a.c", "-o", "plain.o").status == 0
    ended = mavcg("launch", "gcc", "-c", "a.c")
    assert ended.status == 0 and "the compiler's object stays: querying the compiler's macros: gcc" in ended.stderr
    assert not list(notes(here / "a.o"))


def test_cold_functions_that_gcc_cannot_be_started_for_are_not_clangs(
    here: Path, cores: Sequence[str], gcc: object, mavcg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["hot"]\ncores = ["{cores[0]}", "{cores[1]}"]\n')
    (here / "a.c").write_text("int hot(const short *a, int n) { int s = 0; while (n--) s += a[n] * a[n]; return s; }\n")

    def refuse(self: object, text: str, out: Path) -> None:
        raise CannotRun("assembling a.o: gcc cannot be run: Permission denied")

    monkeypatch.setattr("mavcg.program.sources.to_assembly.PlainAssembly.assemble", refuse)
    ended = mavcg("launch", "gcc", "-c", "a.c")
    assert ended.status == 0 and "the compiler's object stays: assembling a.o: gcc cannot be run" in ended.stderr
    assert not list(notes(here / "a.o"))
