"""OpenBLAS is started with the core types that a machine can run: a forced AVX-512 one ends an AVX2 machine's bench."""

import llvmlite.binding as llvm
import pytest

from bench.blas_libraries import openblas_core_types


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx2": True, "avx512vl": False}, ["Haswell", "Zen"]),
        ({"avx2": True, "avx512vl": True}, ["SkylakeX", "Haswell", "Zen"]),
        ({"avx2": True, "avx512vl": True, "avx512bf16": True}, ["SkylakeX", "Sapphirerapids", "Haswell", "Zen"]),
    ],
)
def test_core_types_follow_the_machines_features(
    monkeypatch: pytest.MonkeyPatch, features: dict[str, bool], expected: list[str]
) -> None:
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    assert openblas_core_types() == expected
