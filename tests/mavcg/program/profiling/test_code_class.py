"""Classes of functions by their machine code: kernels in C, compiled under names that say nothing."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mavcg.program.profiling.code_class import class_of_code
from mavcg.program.profiling.code_loops import function_code
from mavcg.program.profiling.function_classes import COPY, DEPTHWISE, ELEMENTWISE, GEMM, NORM, PACK, POOL
from mavcg.toolchain.zig import run_zig

SOURCE = Path(__file__).parent / "data" / "kernels.c"
TARGETS = {
    "x86": ("x86_64-linux-musl", "baseline"),
    "avx2": ("x86_64-linux-musl", "haswell"),
    "a64": ("aarch64-linux-musl", "cortex_a55"),
}
CLASS_OF = {
    "f1": GEMM,
    "f2": GEMM,
    "f3": GEMM,
    "f4": GEMM,
    "f5": DEPTHWISE,
    "f6": DEPTHWISE,
    "f7": DEPTHWISE,
    "f8": PACK,
    "f9": PACK,
    "f10": POOL,
    "f11": POOL,
    "f12": NORM,
    "f13": NORM,
    "f14": ELEMENTWISE,
    "f15": ELEMENTWISE,
    "f16": ELEMENTWISE,
    "f17": ELEMENTWISE,
    "f18": COPY,
    "f19": "",
    "f20": "",
    "f21": "",
    "f22": "",
    "f23": "",
    "f24": "",
    "f25": "",
    "f26": "",
    "f27": ELEMENTWISE,
    "f28": GEMM,
    "f29": GEMM,
    "f30": GEMM,
    "f31": GEMM,
    "f32": GEMM,
    "f33": ELEMENTWISE,
    "f34": POOL,
    "f35": PACK,
    "f36": GEMM,
}


@cache
def classes(folder: Path, target: str, level: str) -> dict[str, str]:
    """Compile the kernels and return the class of each by its code."""
    triple, cpu = TARGETS[target]
    made = folder / f"kernels-{target}{level}.o"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, f"-mcpu={cpu}", level, "-g0"]
    subprocess.run([*command, "-fno-sanitize=all", "-c", str(SOURCE), "-o", str(made)], check=True)
    codes = {name: function_code(made, name) for name in CLASS_OF}
    return {name: class_of_code(code) for name, code in codes.items() if code is not None}


@pytest.mark.sample(3)
@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_are_classed_by_what_they_compute(
    target: str, level: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert classes(tmp_path_factory.getbasetemp(), target, level) == CLASS_OF


# A product of matrices whose inner loops are in a local function without a symbol of its own, called for each row.
LOCAL = """
.globl k
.type k, %function
k:
    stp x29, x30, [sp, #-16]!
1:  {call}
    subs x1, x1, #1
    b.ne 1b
    ldp x29, x30, [sp], #16
    ret
.Lproducts:
    mov x9, x2
2:  ldr q0, [x3], #16
    ldp q1, q2, [x4], #32
    fmla v16.4s, v1.4s, v0.s[0]
    fmla v17.4s, v2.4s, v0.s[0]
    fmla v18.4s, v1.4s, v0.s[1]
    fmla v19.4s, v2.4s, v0.s[1]
    fmla v20.4s, v1.4s, v0.s[2]
    fmla v21.4s, v2.4s, v0.s[2]
    subs x9, x9, #1
    b.ne 2b
    ret
.size k, .-k
"""


@pytest.mark.parametrize(("call", "expected"), [("bl .Lproducts", GEMM), ("bl elsewhere", ""), ("bl k", "")])
def test_products_in_a_local_function_without_a_symbol(call: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "k.S").write_text(LOCAL.format(call=call))
    run_zig("cc", ["-target", "aarch64-linux-musl", "-c", "k.S", "-o", "k.o"], "assembling", tmp_path)
    code = function_code(tmp_path / "k.o", "k")
    assert code is not None and class_of_code(code) == expected


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), b"text"])
def test_what_is_no_code_has_no_class(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(content)
    assert function_code(tmp_path / "a.so", "f1") is None
    assert function_code(tmp_path / "absent.so", "f1") is None
