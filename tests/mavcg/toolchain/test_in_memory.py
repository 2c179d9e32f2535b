"""Code compiled in memory: once for each text, processor and level."""

import ctypes
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from mavcg.toolchain.in_memory import compile_in_memory

ADD = "define i64 @add(i64 %a, i64 %b) {\n  %c = add i64 %a, %b\n  ret i64 %c\n}\n"


def call(engine: llvm.ExecutionEngine, *numbers: int) -> int:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return int(kind(engine.get_function_address("add"))(*numbers))


def test_what_was_compiled_once_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all that it depends on; code that is refused is not kept."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    cpu, parsed, parse = llvm.get_host_cpu_name(), list[str](), llvm.parse_assembly

    def count(text: str) -> llvm.ModuleRef:
        parsed.extend([text] if text else [])
        return parse(text)

    monkeypatch.setattr(llvm, "parse_assembly", count)
    assert call(compile_in_memory(ADD, cpu, (), 2), 3, 4) == 7 and len(parsed) == 1
    assert call(compile_in_memory(ADD, cpu, (), 2), 3, -4) == -1 and len(parsed) == 1
    for number, (level, passes, vectorise) in enumerate([(0, 0, True), (2, 2, True), (2, 2, False)]):
        assert call(compile_in_memory(ADD, cpu, (), level, passes, vectorise), 1, 2) == 3
        assert len(parsed) == 2 + number
    for _ in range(2):
        with pytest.raises(RuntimeError, match="expected"):
            compile_in_memory("define", cpu, (), 2)
    assert call(compile_in_memory(ADD.replace("add i64", "sub i64"), cpu, (), 2), 9, 2) == 7
