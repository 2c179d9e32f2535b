"""Objects for macOS: everything but the link, which needs Apple's stub libraries."""

import json
from pathlib import Path

import pytest

from mavcg import macho
from mavcg.cli.app import run

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


def test_a_library_for_macos_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(tmp_path, "kernels.so") == 2

    assert "give an object, -o kernels.o" in capsys.readouterr().err
    assert not (tmp_path / "kernels.so").exists()
