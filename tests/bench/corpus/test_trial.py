"""The corpus' comparison finds what differs: a package of two files, and the same one with faults."""

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
from bench.corpus.trial import MOST_REPEATED, repeated, try_package, why_no_versions
from bench.corpus.ways import ways, ways_of
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
def test_a_package_is_equal_and_has_versions(tried: Any, way: str, perf: str) -> None:
    if way not in ways():
        pytest.skip(f"no {way} here")

    row = tried(Package("own", BUILD, "$RUN ./own", check="test -x own"), way, timed=True)

    assert row.verdict == row.build_verdict == EQUAL, row
    assert row.version == "1.0" and row.files == 1 and row.bytes_after > row.bytes_before
    assert row.build_bytes > row.bytes_before
    assert row.launch_s > 0 and row.plain_s > 0 and (row.gain is None) == way.endswith("aarch64")


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
