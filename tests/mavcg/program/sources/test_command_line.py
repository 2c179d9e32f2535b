import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.sources.command_line import IrCommand, translate
from mavcg.toolchain.target import Target, host_target

X86 = Target("x86_64", "linux-gnu", "2.36")
ARM = Target("aarch64", "linux-gnu", "2.17")


def translated(line: str, target: Target = X86, language: str = "c") -> IrCommand:
    return translate(line.split(), target, language)


@pytest.mark.parametrize(
    "flags",
    [
        "-I inc -Iinc2 -DA=1 -D B -U C -include a.h -isystem sys -idirafter late -iquote q",
        "-std=gnu11 -fno-exceptions -fvisibility=hidden -fshort-enums -ffast-math -funroll-loops -pthread",
        "-mavx2 -mfma -mno-red-zone -msse4.2",
        "-Wp,-D_FORTIFY_SOURCE=2",
    ],
)
def test_what_decides_the_meaning_is_kept(flags: str) -> None:
    expected = flags.replace("-Wp,", "").split()

    assert list(translated(flags).options)[-len(expected) :] == expected


@pytest.mark.parametrize(
    "flags",
    [
        "-c x.c -o x.o",
        "-MD -MMD -MP -MF x.d -MT x.o -MQ y",
        "-Wall -Wextra -Werror=foo -Wl,-O1 -Wa,--x -pedantic -w",
        "-g -g3 -ggdb -gdwarf-5 -gsplit-dwarf -grecord-gcc-switches",
        "-flto -flto=auto -fno-lto -ffat-lto-objects",
        "-lm -L/x -shared -static -pie -no-pie -Wl,x -z now",
        "-fPIE -fpic -fno-pie",
        "-mtune=cortex-a53 -pipe -save-temps=obj -fdiagnostics-color=always",
        "-Wp,-MD,x.d",
    ],
)
def test_what_does_not_is_dropped_without_a_word(flags: str) -> None:
    assert translated(flags) == translated("")


@pytest.mark.parametrize(
    ("flags", "level", "made_at", "lenient"),
    [
        ("", "0", "-O2", True),
        ("-O0", "0", "-O2", True),
        ("-O", "1", "-O2", True),
        ("-Og", "g", "-O2", True),
        ("-O2", "2", "-O2", False),
        ("-O3", "3", "-O3", False),
        ("-O9", "3", "-O3", False),
        ("-Os", "s", "-Os", False),
        ("-Ofast", "fast", "-O3", False),
        ("-O3 -O0", "0", "-O2", True),
        ("-O0 -fstrict-aliasing", "0", "-O2", False),
    ],
)
def test_level(flags: str, level: str, made_at: str, lenient: bool) -> None:
    command = translated(flags)

    assert command.opt_level == level
    assert [o for o in command.options if o.startswith("-O")] == [made_at]
    assert ("-fno-strict-aliasing" in command.options) == lenient
    assert ("-ffast-math" in command.options) == (level == "fast")


@pytest.mark.parametrize(
    ("flags", "target", "march"),
    [
        ("-march=armv8.2-a+dotprod", ARM, ["-march=armv8.2-a+dotprod"]),
        ("-mcpu=cortex-a76", ARM, []),
        ("-mcpu=cortex-a72+crypto+nofp16", ARM, ["-march=armv8-a+crypto+nofp16"]),
        ("-march=armv8.2-a -mcpu=cortex-a76+sve", ARM, ["-march=armv8.2-a"]),
        ("-march=x86-64-v3 -mtune=haswell", X86, ["-march=x86-64-v3"]),
        ("-mcpu=haswell", X86, []),
    ],
)
def test_isa_extensions_stay_and_cpu_names_go(flags: str, target: Target, march: list[str]) -> None:
    command = translated(flags, target)

    assert [o for o in command.options if o.startswith("-m")] == march
    assert any("-mcpu=" in note for note in command.notes) == ("-mcpu=" in flags and target is ARM)


def test_native_means_something_at_home_only() -> None:
    away = ARM if host_target().arch == "x86_64" else X86

    assert "-march=native" in translated("-march=native", host_target()).options
    assert translated("-march=native", away).notes == (f"-march=native left out: this machine is not {away.arch}",)


@pytest.mark.parametrize("flag", ["-fsanitize=address", "-fprofile-use=x", "--coverage", "-pg", "-fplugin=x.so"])
def test_what_needs_a_runtime_is_left_out_with_a_note(flag: str) -> None:
    command = translated(flag)

    assert command.options == translated("").options
    assert flag in command.notes[0]


def test_where_headers_come_from_is_kept_apart() -> None:
    command = translated("--sysroot=/ndk -target aarch64-linux-android21 -stdlib=libc++ -gcc-toolchain /x")

    assert command.toolchain == (
        "--sysroot=/ndk",
        "-target",
        "aarch64-linux-android21",
        "-stdlib=libc++",
        "-gcc-toolchain",
        "/x",
    )
    assert command.options == translated("").options


@pytest.mark.parametrize("flag", ["-m32", "-mx32", "-mbig-endian"])
def test_other_abis_are_refused(flag: str) -> None:
    with pytest.raises(MavcgError, match=flag):
        translated(flag)


def test_debug_information_on_request() -> None:
    assert "-g" in translate(["-g3"], X86, "c", keep_debug=True).options
    assert "-g0" in translate(["-g3"], X86, "c").options


@given(st.lists(st.sampled_from("-c -o x.o x.c -g -flto -MF d -O2 -Ofast -DX -I -march=native -Wall -x".split())))
def test_no_output_or_link_time_option_survives(flags: list[str]) -> None:
    command = translate(flags, X86, "c")

    assert not {"-c", "-o", "-flto", "-MF", "-x", "-Wall", "-g"} & set(
        o for previous, o in zip(("", *command.options), command.options, strict=False) if previous != "-I"
    )
