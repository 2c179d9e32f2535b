"""The C targets build with sanitizers and take their corpus; the fuzzer itself runs for a short time."""

import subprocess
from pathlib import Path

import pytest

from fuzz.run import NO_COMPILER, run_target

ROOT = Path(__file__).parents[2]
C_TARGETS = ("accel_image", "blas", "chunks", "custom_ops", "delegate", "engine", "selector", "shapes", "states")
RUNS = 1000

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz_c")
    done = subprocess.run(["sh", str(ROOT / "fuzz/c/build.sh"), str(folder)], capture_output=True, text=True)
    if done.returncode == NO_COMPILER:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


def test_every_target_is_built_and_has_a_small_corpus(built: Path) -> None:
    assert sorted(each.name for each in built.iterdir() if each.is_file()) == list(C_TARGETS)
    sources = {path.stem for path in (ROOT / "fuzz/c").glob("*.c")}
    assert sources == set(C_TARGETS)
    files = [path for name in C_TARGETS for path in (ROOT / "fuzz/corpus" / name).iterdir()]
    assert {path.parent.name for path in files} == set(C_TARGETS)
    assert all(path.stat().st_size <= 16384 for path in files)


@pytest.mark.parametrize("name", C_TARGETS)
def test_a_short_run(built: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fuzz.run.BUILD", tmp_path)
    ran = run_target(name, "C", [str(built / name)], None, RUNS)

    assert ran.fault == "" and ran.executions >= RUNS and ran.edges > 50, ran
    assert ran.lines == 0 or ran.reached > ran.lines / 2, ran


def test_a_fault_is_found(tmp_path: Path, built: Path) -> None:
    """With a chunk that is a row too long the target stops at its corpus: it does detect faults."""
    source = (ROOT / "runtime/csrc/engine_chunk.c").read_text()
    broken = source.replace("return rows < remaining ? (uint32_t)rows : remaining;", "return (uint32_t)rows;")
    assert broken != source
    (tmp_path / "engine_chunk.c").write_text(broken)
    (tmp_path / "chunks.c").write_bytes((ROOT / "fuzz/c/chunks.c").read_bytes())
    flags = ["-std=gnu11", "-g", "-Wno-unused-function", "-fsanitize=fuzzer,address,undefined", f"-I{tmp_path}"]
    flags += [f"-I{ROOT / 'runtime/csrc'}"]
    for compiler in ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"):
        command = [compiler, *flags, str(tmp_path / "chunks.c"), "-o", str(tmp_path / "chunks")]
        try:
            done = subprocess.run(command, capture_output=True)
        except FileNotFoundError:
            continue
        if not done.returncode:
            break
    corpus = [str(path) for path in (ROOT / "fuzz/corpus/chunks").iterdir()]
    done = subprocess.run([str(tmp_path / "chunks"), *corpus], capture_output=True)

    assert done.returncode != 0 and b"deadly signal" in done.stderr
