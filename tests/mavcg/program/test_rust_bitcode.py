"""rustc, to the letter, in a fresh folder: `mavcg launch` refuses it by name; its bitcode gets versions in bitcode."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import zig_program

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")]
KERNEL = """\
#[no_mangle] #[inline(never)]
pub extern "C" fn squares(x: *const f32, n: usize) -> f32 {
    let v = unsafe { std::slice::from_raw_parts(x, n) };
    let mut s = [0f32; 16];
    for c in v.chunks_exact(16) { for i in 0..16 { s[i] += c[i] * c[i]; } }
    s.iter().sum()
}
"""
PROGRAM = """\
#[path = "kernel.rs"] mod kernel;
fn main() {
    let v: Vec<f32> = (0..64).map(|i| i as f32).collect();
    println!("{}", kernel::squares(v.as_ptr(), 64));
}
"""
CALLER = """\
#include <stdio.h>
float squares(const float *, unsigned long);
int main(void) {
    float v[64];
    for (int i = 0; i < 64; i++) v[i] = i;
    printf("%g\\n", squares(v, 64));
}
"""


@pytest.fixture
def project(here: Path) -> Path:
    (here / "mavcg.toml").write_text('[build]\nhot = ["squares"]\ncores = ["haswell", "znver4"]\n')
    for name, text in (("kernel.rs", KERNEL), ("main.rs", PROGRAM), ("main.c", CALLER)):
        (here / name).write_text(text)
    return here


@pytest.mark.parametrize("strict", [False, True])
def test_launch_names_rustc_and_leaves_its_program(mavcg: Any, project: Path, strict: bool) -> None:
    ended = mavcg("launch", *["--strict"] * strict, "rustc", "-O", "main.rs")
    assert ended.status == 2 * strict
    assert "rustc: main.rs is Rust, and versions are made of C and C++: squares cannot have versions" in ended.stderr
    assert subprocess.run(["./main"], capture_output=True, text=True, check=True).stdout == "85344\n"


def test_rustcs_bitcode_gets_versions_and_a_link_with_lto_takes_it(mavcg: Any, project: Path) -> None:
    subprocess.run(["rustc", "-O", "--emit=llvm-bc", "--crate-type=lib", "kernel.rs"], check=True)
    ended = mavcg(
        "build",
        "--ir",
        "kernel.bc",
        "--hot",
        "squares",
        "--cores",
        "haswell,znver4",
        "--runtime",
        "static",
        "-o",
        "versions.bc",
    )
    rust = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    zig = subprocess.run([zig_program(), "cc", "--version"], check=True, capture_output=True, text=True).stdout
    if int(re.findall(r"LLVM version: (\d+)", rust)[0]) > int(re.findall(r"clang version (\d+)", zig)[0]):
        pytest.skip("rustc's LLVM is newer than ziglang's, which cannot read its bitcode")
    assert ended.status == 0, ended.stderr
    words = [zig_program(), "cc", "-O2", "main.c", "versions.bc", "-o", "app"]
    subprocess.run(words, check=True, capture_output=True)

    [function] = json.loads(mavcg("inspect", "app", "--json").stdout)["functions"]
    assert [version["core"] for version in function["versions"]] == ["generic", "haswell", "znver4"]
    assert function["versions"][1]["extensions"] == ["avx"]
    printed = {
        subprocess.run(["./app"], env={"MAVCG_CPU_MAP": f"all={core}"}, capture_output=True, text=True).stdout
        for core in ("generic", "haswell")
    }
    assert printed == {"85344\n"}
