"""Libraries that share one selector: what they load, what happens where it is missing or too old."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from mavcg.objects.elf import loaded_bytes, protection, undefined_symbols
from mavcg.runtime import shared
from mavcg.runtime.shared import EXPORTS, SONAME, build_shared_runtime
from mavcg.toolchain.target import Target, host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.mavcg.conftest import CORES, Mavcg

NAMES: tuple[str, ...] = CORES
SOURCES = {
    "one": "int dot(const short *a, const short *b, int n) { int s = 0; while (n--) s += a[n] * b[n]; return s; }\n",
    "two": "int squares(const short *a, int n) { int s = 0; while (n--) s += a[n] * a[n]; return s; }\n",
}
HOT = {"one": "dot", "two": "squares"}
MAIN = """\
#include <stdio.h>
int dot(const short *, const short *, int); int squares(const short *, int);
int main(void) {
    short a[100];
    for (int i = 0; i < 100; i++) a[i] = (short)i;
    printf("%d\\n", dot(a, a, 100) - squares(a, 100));
    return 0;
}
"""


def _libraries(mavcg: Mavcg, folder: Path, cores: dict[str, str], *more: str) -> None:
    for name, source in SOURCES.items():
        (folder / f"{name}.c").write_text(source)
        done = mavcg(
            "build",
            "--source",
            folder / f"{name}.c",
            "--hot",
            HOT[name],
            "--cores",
            cores[name],
            "--runtime",
            "shared",
            "-o",
            folder / f"lib{name}.so",
            "--json",
            *more,
        )
        assert done.status == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["functions"][0]["dispatched"] and 0 < document["runtime_bytes"] < 2000
        assert any(SONAME in note and "mavcg runtime" in note for note in document["notes"])


def _program(folder: Path) -> Path:
    (folder / "main.c").write_text(MAIN)
    flags = [
        "-O2",
        *PLAIN_CODE_FLAGS,
        "-target",
        host_target().zig_name,
        f"-Wl,-rpath,{folder}",
        "-Wl,--allow-shlib-undefined",
    ]
    run_zig("cc", [*flags, "main.c", "libone.so", "libtwo.so", "-o", "main"], "compiling", folder)
    return folder / "main"


def _run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(path)], env=environment, capture_output=True, text=True)


def test_two_libraries_of_different_cores_share_one_selector(mavcg: Mavcg, tmp_path: Path) -> None:
    first, second = NAMES[:2]
    _libraries(mavcg, tmp_path, {"one": f"{first},{second}", "two": first})
    assert mavcg("runtime", "-o", tmp_path).status == 0
    main = _program(tmp_path)
    for core in (first, "generic"):
        done = _run(main, MAVCG_TRACE="1", MAVCG_CPU_MAP=f"all={core}")
        assert done.stdout == "0\n"
        if "does not all have" not in done.stderr:  # this machine can run the core
            assert sorted(done.stderr.splitlines()) == [f"mavcg: dot {core} 1", f"mavcg: squares {core} 1"]
    assert _run(main).stderr == ""
    marks = {"aarch64": ["BTI", "PAC", "GCS"], "x86_64": ["IBT", "SHSTK"]}[host_target().arch]
    assert protection(tmp_path / SONAME) == marks == protection(tmp_path / "libone.so")


@pytest.mark.long
def test_a_missing_selector_is_named_at_load(mavcg: Mavcg, tmp_path: Path) -> None:
    _libraries(mavcg, tmp_path, {"one": NAMES[0], "two": NAMES[0]})
    done = _run(_program(tmp_path))
    assert done.returncode == 127 and f"{SONAME}: cannot open shared object file" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(host_target().system != "linux-gnu", reason="glibc's loader is the one that checks here")
def test_a_selector_that_is_too_old_is_refused_at_load(
    mavcg: Mavcg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(shared, "build_shared_runtime", partial(build_shared_runtime, abi=3))
        _libraries(mavcg, tmp_path, {"one": NAMES[0], "two": NAMES[0]})
    main = _program(tmp_path)
    assert mavcg("runtime", "-o", tmp_path).status == 0
    done = _run(main)
    assert done.returncode != 0 and f"{SONAME}: version `MAVCG_RT_3' not found (required by" in done.stderr


@pytest.mark.long
def test_where_the_loader_checks_nothing_the_selector_says_so_and_generic_runs(
    mavcg: Mavcg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older selector under a loader that ignores symbol versions: its version here is what the library wants."""
    monkeypatch.setattr(shared, "build_shared_runtime", partial(build_shared_runtime, abi=0))
    _libraries(mavcg, tmp_path, {"one": NAMES[0], "two": NAMES[0]})
    build_shared_runtime(host_target(), tmp_path, abi=0)
    done = _run(_program(tmp_path), MAVCG_TRACE="1")
    assert done.stdout == "0\n" and done.returncode == 0
    said = "mavcg: a library wants the selector's ABI 2, and this libmavcg_rt.so has 0: its generic versions run"
    assert done.stderr.count(said) == 2 and "install a newer one (mavcg runtime)" in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["aarch64-linux-gnu.2.17", "aarch64-linux-android", "x86_64-linux-musl"])
def test_it_is_built_for_every_elf_target(mavcg: Mavcg, tmp_path: Path, target: str) -> None:
    assert mavcg("runtime", "--target", target, "-o", tmp_path, "--json").status == 0
    assert (tmp_path / "libmavcg_rt.so").resolve() == tmp_path / SONAME
    assert 4000 < loaded_bytes(tmp_path / SONAME) < 14000


def test_an_object_leaves_the_selector_to_the_programs_link(mavcg: Mavcg, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(SOURCES["one"])
    (tmp_path / "mavcg.toml").write_text(
        f'[build]\nsources = ["one.c"]\nhot = ["dot"]\ncores = ["{NAMES[0]}"]\noutput = "one.o"\nruntime = "shared"\n'
    )
    done = mavcg("build", tmp_path / "mavcg.toml")
    assert done.status == 0 and "linked with -lmavcg_rt" in " ".join(done.stdout.split())
    assert set(EXPORTS) - {"mavcg_rt_entries"} <= set(undefined_symbols(tmp_path / "one.o"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--runtime", "dynamic"], "--runtime dynamic: is neither small nor static nor shared"),
        (["--runtime", "shared", "--target", "aarch64-macos"], "--runtime shared: is for Linux and Android"),
    ],
)
def test_what_cannot_be_shared(mavcg: Mavcg, tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "one.c").write_text(SOURCES["one"])
    base = ["build", "--source", tmp_path / "one.c", "--hot", "dot", "--cores", "cortex-a55"]
    more = [] if "--target" in options else ["--target", "aarch64-linux-gnu.2.17"]
    done = mavcg(*base, *options, *more, "-o", tmp_path / ("a.dylib" if "aarch64-macos" in options else "a.so"))
    assert done.status == 2 and words in done.stderr
    assert mavcg("runtime", "--target", "aarch64-macos", "-o", tmp_path).status == 2
    assert mavcg("runtime", "-o", tmp_path / "nowhere").status == 2


@pytest.mark.long
def test_the_same_input_builds_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(build_shared_runtime(Target("aarch64", "linux-gnu", "2.17"), tmp_path / name).read_bytes())
    assert made[0] == made[1]
