"""The corpus' comparison finds what differs: a package of two files, and the same one with faults."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bench.corpus import packages
from bench.corpus.inputs import write_inputs
from bench.corpus.packages import Package, read_packages
from bench.corpus.rows import EQUAL
from bench.corpus.trial import (
    MOST_REPEATED,
    Failed,
    first_error,
    refuse_compilers_own,
    repeated,
    try_package,
    why_no_versions,
)
from bench.corpus.ways import BUILD as BUILD_TOOL
from bench.corpus.ways import LAUNCH, PLAIN, ways, ways_of
from mavcg.errors import MavcgError
from mavcg.program.report import lines_of
from mavcg.text.terminal import shown_lines
from mavcg.toolchain.zig import zig_program

SOURCE = """\
#include <stdio.h>
__attribute__((noinline)) static unsigned mix(const unsigned char *text, long count, unsigned round) {
    unsigned sum = 0;
    for (long i = 0; i < count; i++) sum += text[i] * 31u ^ round;
    return sum;
}
int main(void) {
    static unsigned char text[1 << 20];
    for (long i = 0; i < 1 << 20; i++) text[i] = (unsigned char)(i * 7);
    unsigned sum = 0;
    for (unsigned round = 0; round < 900; round++) sum += mix(text, 1 << 20, round);
    printf("%u\\n", sum);
    return 0;
}
"""
CRATE = """\
#[inline(never)]
pub fn mix(text: &[u8], round: u32) -> u32 {
    text.iter().fold(0, |sum, each| sum.wrapping_add((*each as u32).wrapping_mul(31) ^ round))
}
"""
PROGRAM = """\
fn main() {
    let text: Vec<u8> = (0..1 << 20).map(|each: u32| (each * 7) as u8).collect();
    println!("{}", (0..900).fold(0, |sum: u32, round| sum.wrapping_add(own::mix(&text, round))));
}
"""
BUILD = "$CC -O2 -c own.c && $CC own.o -o own"
# A program whose hot function, stir, is in none of the build's objects.
ANOTHER = f"{zig_program()} cc -O2 -Dmix=stir own.c -o another"


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function (package, way) -> its Row, of a package whose tarball has SOURCE alone."""
    (tmp_path / "own-1.0").mkdir()
    (tmp_path / "own-1.0/own.c").write_text(SOURCE)
    with tarfile.open(tmp_path / "own_1.0.orig.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "own-1.0", "own-1.0")
    monkeypatch.setattr(packages, "source_tarball", lambda _: tmp_path / "own_1.0.orig.tar.gz")
    write_inputs(tmp_path / "data")
    (tmp_path / "own").mkdir()
    return lambda package, way, timed=False: try_package(
        package, ways()[way], tmp_path / "own", tmp_path / "data", timed
    )


@pytest.mark.long
@pytest.mark.parametrize("way", ["zig", "zig-aarch64"])
def test_a_package_is_equal_and_has_versions(tried: Any, tmp_path: Path, way: str, perf: str) -> None:
    if way not in ways():
        pytest.skip(f"no {way} here")

    build = f'{BUILD} && echo "$MAVCG_CACHE" > {tmp_path}/cache-$(basename $PWD)'
    row = tried(Package("own", build, "$RUN ./own", check="test -x own"), way, timed=True)

    assert row.verdict == row.build_verdict == EQUAL, row
    assert row.version == "1.0" and row.files == 1 and row.bytes_after > row.bytes_before
    assert row.build_bytes > row.bytes_before
    assert row.launch_s > 0 and row.plain_s > 0 and (row.gain is None) == way.endswith("aarch64")
    plain, launched = ((tmp_path / f"cache-{tool}").read_text().strip() for tool in (PLAIN, LAUNCH))
    assert plain == os.environ.get("MAVCG_CACHE", "") != launched and not Path(launched).exists(), (
        "its own, and removed"
    )


@pytest.mark.long
def test_an_object_named_by_way_of_another_folder_is_replaced(tried: Any, perf: str) -> None:
    build = "mkdir sub && $CC -O2 -c -o sub/../own.o own.c && $CC own.o -o own"

    row = tried(Package("own", build, "$RUN ./own"), "zig")

    assert (row.verdict, row.build_verdict, row.files) == (EQUAL, EQUAL, 1), row
    assert row.build_bytes > row.bytes_before


@pytest.mark.long
def test_a_build_that_kept_the_compilers_object_is_not_equal(tried: Any, perf: str) -> None:
    own = f"case $CC in */{BUILD_TOOL}-tools/*) {zig_program()} cc -O2 -c own.c;; esac"

    row = tried(Package("own", f"$CC -O2 -c own.c && {own} && $CC own.o -o own", "$RUN ./own"), "zig")

    assert row.verdict == EQUAL and row.build_bytes == 0
    assert row.build_verdict == "build: 1 of 1 objects are not by mavcg build: own.o"


def test_objects_of_a_compiler_are_told_from_those_of_mavcg_build(tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text("int one(void) { return 1; }\n")
    subprocess.run([str(zig_program()), "cc", "-c", "own.c"], cwd=tmp_path, check=True)

    with pytest.raises(Failed, match="build: 2 of 2 objects are not by mavcg build: none.o"):
        refuse_compilers_own(tmp_path, ["none.o", "own.o"])


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (
            "cc a.c\na.c:1:2: error: no x\nb.c:3: error: no y\nmake: *** [Makefile:3: a.o] Error 1\n",
            "a.c:1:2: error: no x",
        ),
        (
            "cc a.c\nmavcg: a.c: no such core\nmake[1]: *** [a.o] Error 1\nmake: *** [all] Error 2",
            "mavcg: a.c: no such core",
        ),
        ("ld: a.o: undefined reference to `x'\ncollect2: error: ld returned 1", "ld: a.o: undefined reference to `x'"),
        ("error[E0425]: cannot find `x`\nerror: aborting", "error[E0425]: cannot find `x`"),
        ("CMake Error at a.txt:1:\n  none\n-- Configuring incomplete", "CMake Error at a.txt:1:"),
        ("checking for strerror... yes\nno compiler\n", "no compiler"),
        ("make: *** No rule to make target 'x'.  Stop.\n", "make: *** No rule to make target 'x'.  Stop."),
        ("\n", "no message"),
    ],
    ids=["compiler", "mavcg", "linker", "rustc", "cmake", "last", "make", "none"],
)
def test_a_build_that_failed_shows_its_first_error(log: str, shown: str) -> None:
    assert first_error(log) == shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "work", "check", "verdict"),
    [
        (f"{BUILD} && echo ${{MAVCG_CONFIG:+1}} > made", "./own && cat made", "", "differs here"),
        (f"{BUILD} && echo ${{MAVCG_CONFIG:+1}} > made", "./own && cp made $OUT/made", "", "differs here"),
        (BUILD, "./own", 'test -z "$MAVCG_CONFIG"', "check: status 1"),
        (BUILD, "./own; exit 3", "", "work: status 3"),
        ("$CC -O2 none.c", "./own", "", "build: status 1"),
        (f"{BUILD} && {ANOTHER}", "./another", "", "no versions: no object defines a hot function"),
    ],
    ids=["output", "file", "check", "work", "build", "not hot"],
)
def test_what_differs_is_found(tried: Any, perf: str, build: str, work: str, check: str, verdict: str) -> None:
    assert tried(Package("own", build, work, check), "zig").verdict.startswith(verdict)


@pytest.mark.long
def test_a_crates_object_is_made_of_its_bitcode(
    tried: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, perf: str
) -> None:
    if "rustc" not in ways() or not shutil.which("dpkg-deb"):
        pytest.skip("no rustc or dpkg-deb here")
    package, crate = read_packages(["librust-weezl-dev"])[0], tmp_path / "deb/usr/share/cargo/registry/own-1.0"
    (crate / "src").mkdir(parents=True)
    (crate / "src/lib.rs").write_text(CRATE)
    (tmp_path / "deb/DEBIAN").mkdir()
    fields = "Package: own\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: none\n"
    (tmp_path / "deb/DEBIAN/control").write_text(fields)
    made = tmp_path / "own_1.0_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tmp_path / "deb"), str(made)], check=True, stdout=subprocess.DEVNULL)
    monkeypatch.setattr(packages, "package_file", lambda _: made)
    build = f"{package.build.partition('cat >')[0].replace('weezl', 'own')}\ncat > own.rs <<END\n{PROGRAM}END\n"
    build += "$RUSTC --edition 2018 -C opt-level=3 -C linker=$CC --extern own=libown.rlib own.rs -o program"

    row = tried(Package("own", build, "$RUN ./program", objects=("own.o",)), "rustc")

    assert row.verdict == row.build_verdict == EQUAL and row.files == 0, row
    assert 0 < row.bytes_before == row.bytes_after < row.build_bytes, row


def test_crates_are_built_by_rustc_alone() -> None:
    assert {way.is_rust for way in ways_of(Package("own", "", "", objects=("own.o",)))} <= {True}
    assert {way.is_rust for way in ways_of(Package("own", "", ""))} == {False}
    assert not any(way.arm for way in ways_of(Package("own", "", "", arm=False)))


@pytest.mark.parametrize(("cpu_s", "rounds"), [(0.0, MOST_REPEATED), (0.3, 4), (5.0, 1)])
def test_short_work_is_repeated_with_an_empty_folder(tmp_path: Path, cpu_s: float, rounds: int) -> None:
    work = f"\necho once >> {tmp_path}/count\ntest ! -e $OUT/made\ncd / && echo made > $OUT/made\n"
    (tmp_path / "out").mkdir()
    done = subprocess.run(["sh", "-ec", repeated(work, cpu_s)], env={"OUT": f"{tmp_path}/out"}, capture_output=True)
    assert (done.returncode, (tmp_path / "count").read_text()) == (0, "once\n" * rounds)
    assert subprocess.run(["sh", "-c", repeated("exit 3", cpu_s)], env={"OUT": "/none"}).returncode == 3


def test_packages_that_cannot_be_had_are_named(tried: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(Package("own", BUILD, "./own", needs=("no-such-program",)), "zig").verdict == (
        "not tried: needs no-such-program"
    )
    monkeypatch.setattr(packages, "source_tarball", lambda _: "no archives")
    assert tried(Package("own", BUILD, "./own"), "zig").verdict == "not tried: no archives"


def test_every_package_of_the_table_has_work_to_compare() -> None:
    for package in read_packages():
        assert "$RUN " in package.work, package.source
    with pytest.raises(MavcgError, match="no package nonesuch; there are"):
        read_packages(["nonesuch"])


def test_inputs_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_inputs(tmp_path / name)

    names = {path.name for path in (tmp_path / "first").iterdir()}

    assert names == {"sound.raw", "sound.wav", "floats.raw", "speech.raw", "image.ppm", "frames.y4m", "text"}
    assert all((tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes() for name in names)


def test_why_no_object_has_versions_is_what_launch_says_of_the_first_that_keeps_its_own() -> None:
    versions = "mavcg: a.o: mix (generic, znver3); growth 9 % (100 to 109 bytes, 1.0 s of CPU time)\n"
    growth = "growth 0 % (100 to 100 bytes, 1.0 s of CPU time)"
    for reason in ("too large", f"too large {'x' * 200}"):  # told in one line, and in several
        parts = ["mix (one version for all)", f"without znver3: {reason}", growth, "the compiler's own object stays"]
        kept = shown_lines(lines_of("b.o", parts))
        assert ("\n" in kept) == (len(reason) > 200)
        told = f"b.o: mix (one version for all); without znver3: {reason}"
        assert why_no_versions(f"make: b.o\n{versions}{kept}\n{versions}") == told[:160]
    assert why_no_versions(versions) == "no object defines a hot function"
