import os
import re
import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.sources.load_ir import load_ir
from mavcg.toolchain.zig import run_zig
from tests.conftest import examples

C_SOURCE = "static int helper(int x) { return x / 3; }\nint work(int *v, int n) {\n  int s = 0;\n" + (
    "  for (int i = 0; i < n; i++) s += helper(v[i]);\n  return s;\n}\n"
)


def make(folder: Path, kind: str, flags: str = "-O2") -> Path:
    """x.ll or x.bc of C_SOURCE, by zig cc."""
    (folder / "x.c").write_text(C_SOURCE)
    output = folder / f"x.{kind}"
    run_zig(
        "cc",
        [*flags.split(), *(["-S"] if kind == "ll" else ["-c"]), "-emit-llvm", "x.c", "-o", output.name],
        "x",
        folder,
    )
    return output


@pytest.fixture(scope="session")
def bitcode(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(tmp_path_factory.mktemp("bc"), "bc").read_bytes()


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(tmp_path_factory.mktemp("ll"), "ll").read_bytes()


@pytest.mark.parametrize("kind", ["ll", "bc"])
def test_clangs_ir_loads(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path, kind)
    module = load_ir(path)

    assert "define" in module.text and "@work(" in module.text
    assert (module.source, module.opt_level, module.notes) == (path, None, ())
    llvm.parse_assembly(module.text).verify()


@pytest.mark.parametrize("kind", ["ll", "bc"])
def test_zigs_ir_loads(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.zig").write_text("export fn work(a: [*]f32, n: usize) void { for (0..n) |i| a[i] *= 2; }")
    emit = {"ll": "-femit-llvm-ir=x.ll", "bc": "-femit-llvm-bc=x.bc"}[kind]
    run_zig(
        "build-obj", ["x.zig", "-OReleaseFast", "-fno-emit-bin", emit, "-target", "aarch64-linux-gnu"], "x", tmp_path
    )

    assert re.search(r"@work = alias|define .*@work\(", load_ir(tmp_path / f"x.{kind}").text)


@pytest.mark.skipif(not shutil.which("rustc"), reason="needs rustc")
@pytest.mark.parametrize("kind", ["ll", "bc"])
def test_rusts_ir_loads(tmp_path: Path, kind: str) -> None:
    source = (
        '#![crate_type="lib"]\n#[no_mangle] pub extern "C" fn work(v: &mut [f32; 64]) { for x in v { *x *= 2.0; } }'
    )
    (tmp_path / "x.rs").write_text(source)
    emit = {"ll": "llvm-ir", "bc": "llvm-bc"}[kind]
    command = ["rustc", f"--emit={emit}", "-Copt-level=3", "-Cno-prepopulate-passes", "x.rs"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    assert re.search(r"@work = alias|define .*@work\(", load_ir(tmp_path / f"x.{kind}").text)


def test_unoptimisable_functions_are_noted(tmp_path: Path) -> None:
    assert "-O0 (optnone)" in load_ir(make(tmp_path, "ll", "-O0")).notes[0]


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(MavcgError) as error:
        load_ir(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b" \n\n", "only blanks"),
        (b"int main() {}\n", "expected top-level entity"),
        (b"; fine so far\ndefine i32 @f(i32* %p) {\n %v = load i32* %p\n ret i32 %v\n}\n", "expected comma"),
        (b"define i32 @f() {\n ret i32 undefined_thing\n}\n", "not LLVM IR that LLVM 22"),
        (b"define i32 @f() {\n ret i64 0\n}\n", "doesn't match"),
        (b"; \xff\xfe\n", "byte 2 is not UTF-8"),
        (b'target triple = "x86_64\\00-linux"\n', "end of file in string constant"),
        (b"\0" * 64, "only blanks"),
        (b"\x01\0\x02\0" * 64, "a binary file of no known kind"),
        (b"!<arch>\nx.o/", "an archive"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "a native Mach-O file"),
        (b"MZ\x90\0" + bytes(60), "a Windows executable"),
        (b"BC\xc0\xde", "damaged or truncated bitcode"),
    ],
)
def test_what_is_no_ir_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path / "given", data)


def test_a_native_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(C_SOURCE)
    run_zig("cc", ["-target", "aarch64-linux-gnu", "-c", "x.c", "-o", "x.o"], "x", tmp_path)

    assert "a native ELF object file (AArch64), not LLVM IR" in refused(
        tmp_path / "x.o", (tmp_path / "x.o").read_bytes()
    )


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "no.bc", tmp_path):
        with pytest.raises(MavcgError, match="name a .ll or .bc file"):
            load_ir(path)


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.95])
def test_truncated_bitcode_is_an_error(tmp_path: Path, bitcode: bytes, part: float) -> None:
    assert "bitcode" in refused(tmp_path / "x.bc", bitcode[: int(len(bitcode) * part) // 4 * 4])


def test_bitcode_of_another_epoch_is_an_error(tmp_path: Path, bitcode: bytes) -> None:
    """The identification block's epoch says who can read the file (LLVM Bitcode Format, IDENTIFICATION_BLOCK).

    The record EPOCH: [0] comes unabbreviated or abbreviated, at a bit position that depends on the producer's name: the
    test finds the bit whose flip makes LLVM speak of the epoch.
    """
    end = bitcode.index(b"LLVM") if b"LLVM" in bitcode else 64
    for position in range(8 * 8, (end + 40) * 8):
        changed = bytearray(bitcode)
        changed[position // 8] ^= 1 << position % 8
        try:
            llvm.parse_bitcode(bytes(changed))
        except RuntimeError as error:
            if "epoch" in str(error):
                assert "of a newer LLVM" in refused(tmp_path / "x.bc", bytes(changed))
                return
    pytest.fail("no bit of the identification block is the epoch")


def test_llvm_ending_the_reading_process_is_an_error(
    tmp_path: Path, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys\nprint('LLVM ERROR: no way', file=sys.stderr, flush=True)\nos.abort()\n"
    monkeypatch.setattr("mavcg.program.sources.load_ir.CHILD_CODE", code)

    assert "LLVM cannot read it (LLVM ERROR: no way)" in refused(tmp_path / "x.ll", text)


def test_nothing_is_left_behind(tmp_path: Path, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "x.ll").write_bytes(text)
    load_ir(tmp_path / "x.ll")

    assert os.listdir(tmp_path) == ["x.ll"]


def mutated(data: bytes, edits: list[tuple[int, int]], cut: int) -> bytes:
    changed = bytearray(data)
    for position, value in edits:
        changed[position % len(changed)] = value
    return bytes(changed[: len(changed) - cut % (len(changed) // 4)] if cut else changed)


edits = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4)
FEW = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def check_any_damage_is_text_or_one_error(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        module = load_ir(path)
    except MavcgError as error:
        assert str(path) in str(error)
    else:
        llvm.parse_assembly(module.text).verify()  # safe in this process: LLVM wrote it


@pytest.mark.long
@settings(max_examples=examples(12, 5), **FEW)  # type: ignore[arg-type]
@given(edits=edits, cut=st.integers(0, 1 << 20), as_text=st.booleans())
def test_damaged_ir_is_text_or_one_error(
    tmp_path: Path, bitcode: bytes, text: bytes, edits: list[tuple[int, int]], cut: int, as_text: bool
) -> None:
    check_any_damage_is_text_or_one_error(tmp_path / "damaged", mutated(text if as_text else bitcode, edits, cut))


@pytest.mark.long
@settings(max_examples=examples(400, 13), **FEW)  # type: ignore[arg-type]
@given(edits=edits, cut=st.integers(0, 1 << 20), as_text=st.booleans())
def test_much_damaged_ir_is_text_or_one_error(
    tmp_path: Path, bitcode: bytes, text: bytes, edits: list[tuple[int, int]], cut: int, as_text: bool
) -> None:
    check_any_damage_is_text_or_one_error(tmp_path / "damaged", mutated(text if as_text else bitcode, edits, cut))
