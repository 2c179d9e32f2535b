"""Objects and dylibs for macOS, read back; no Mac runs them here."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.cli.app import run
from mavcg.objects import macho
from mavcg.objects.macho import trie_names
from mavcg.toolchain.zig import run_tool
from tests.mavcg.conftest import Mavcg

SOURCE = """
template <class T> struct Dot {
  static __attribute__((noinline)) T of(const T *a, const T *b, int n) {
    T s = 0;
    while (n--) s += *a++ * *b++;
    return s;
  }
};
extern "C" float dot(const float *a, const float *b, int n) { return Dot<float>::of(a, b, n); }
extern "C" void scale(float *a, int n) { for (int i = 0; i < n; i++) a[i] *= 3; }
"""
CORES = "cortex-a55,apple-firestorm"


def build(folder: Path, output: str) -> int:
    source = folder / "kernels.cc"
    source.write_text(SOURCE)
    options = ["--hot", "Dot::of,scale", "--cores", CORES, "--target", "aarch64-macos", "-o", str(folder / output)]
    return run(["build", "--source", str(source), *options, "--json"])


@pytest.mark.long
def test_an_object_for_macos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(tmp_path, "kernels.o") == 0
    built = json.loads(capsys.readouterr().out)
    assert run(["inspect", str(tmp_path / "kernels.o"), "--json"]) == 0
    inspected = json.loads(capsys.readouterr().out)

    assert macho.is_macho(tmp_path / "kernels.o")
    assert [f["name"] for f in inspected["functions"]] == [f["name"] for f in built["functions"]]
    assert inspected["growth_percent"] == built["growth_percent"] > 0
    for function in inspected["functions"]:
        assert {v["core"] for v in function["versions"]} == {"generic", *CORES.split(",")}
        for version in function["versions"]:
            if version["shares_body_with"] is None:
                symbol = f"{function['name']}.{version['core']}"
                assert version["bytes"] > 0
                assert macho.symbol_bytes(tmp_path / "kernels.o", symbol) >= version["bytes"] - 16


def test_a_dylib_for_macos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Built and read back; no Mac runs it here."""
    assert build(tmp_path, "libkernels.dylib") == 0, capsys.readouterr().err
    built = json.loads(capsys.readouterr().out)
    assert run(["inspect", str(tmp_path / "libkernels.dylib"), "--json"]) == 0
    inspected = json.loads(capsys.readouterr().out)
    out = tmp_path / "libkernels.dylib"

    assert macho.install_name(out) == "@rpath/libkernels.dylib"
    assert macho.libraries(out) == ["/usr/lib/libSystem.B.dylib"] == inspected["libraries"]
    assert macho.is_signed(out)
    exported = macho.exports(out)
    assert {"dot", "scale"} <= set(exported) and not any("." in name or "mavcg" in name for name in exported)
    assert {f["name"] for f in inspected["functions"]} == {f["name"] for f in built["functions"]}
    assert built["growth_percent"] > 0 and built["runtime_bytes"] > 1000
    assert set(built["needed"]) <= {
        "dyld_stub_binder",
        "_NSGetEnviron",
        "getpid",
        "issetugid",
        "pthread_cpu_number_np",
        "sched_yield",
        "writev",
        "memset",
        "__cxa_atexit",
    }


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("llvm-objdump"), reason="llvm-objdump is not installed")
def test_what_is_read_of_a_dylib_is_what_llvm_reads(tmp_path: Path) -> None:
    assert build(tmp_path, "libkernels.dylib") == 0
    out = tmp_path / "libkernels.dylib"
    lines = run_tool(["llvm-objdump", "--macho", "--exports-trie", str(out)], "reading exports").splitlines()
    names = sorted(line.split()[1].removeprefix("_") for line in lines if line.startswith("0x"))
    assert macho.exports(out) == names and names


@pytest.mark.long
def test_options_for_a_dylib(mavcg: Mavcg, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("float twice(float *a, int n) { float s = 0; while (n--) s += a[n]; return s; }")
    out = tmp_path / "libk.dylib"
    base = ["build", "--source", tmp_path / "k.c", "--hot", "twice", "--cores", CORES, "--target", "aarch64-macos"]
    done = mavcg(*base, "-o", out, "--soname", "libk.1.dylib", "--strip")
    assert done.status == 0, done.stderr
    assert macho.install_name(out) == "@rpath/libk.1.dylib"
    (tmp_path / "map").write_text("{ global: *; };")
    for options, words in (
        (["--version-script", tmp_path / "map"], "macOS libraries have no symbol versions"),
        (["--link-option=-Wl,-z,now"], "is for ELF libraries"),
    ):
        done = mavcg(*base, "-o", tmp_path / "libother.dylib", *options)
        assert done.status == 2 and words in done.stderr
    done = mavcg(*base, "-o", tmp_path / "libk.so")
    assert done.status == 2 and "neither a shared library (.dylib) nor an object (.o)" in done.stderr
    assert not (tmp_path / "libother.dylib").exists() and not (tmp_path / "libk.so").exists()


@given(st.binary(max_size=64))
def test_garbled_exports_end_in_an_error(trie: bytes) -> None:
    with suppress(ValueError, IndexError):
        assert all(isinstance(name, str) for name in trie_names(trie))
