"""Versions through the machine passes: which may go, what comes back, what is kept for the next build."""

import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mavcg.assembly.tuning import tune_version, tune_versions
from mavcg.assembly.tuning_options import FAST, Tuning, has_machine_passes
from mavcg.assembly.version_tuning import TuningJob, has_open_inline
from mavcg.profiles.load import cores_for, load_core
from mavcg.program.compile_versions import code_bytes
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.to_ir import Compiler, compile_to_ir
from mavcg.program.version_values import CompiledVersion, VersionedModule, VersionOptions
from mavcg.program.versions import make_versions
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import Target, parse_target
from tests.machine import QEMU, needs_qemu

ARM = parse_target("aarch64-linux-gnu.2.17")
DOT = """
float dot(const float *a, const float *b, long n) {
    float s[4] = {0, 0, 0, 0};
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 4; j++) s[j] += a[4 * i + j] * b[4 * i + j];
    return s[0] + s[1] + s[2] + s[3];
}
"""
COUNT = """
int count(%s int *at, long n) {
    int sum = 0;
    for (long i = 0; i < n; i++) { sum += %s; %s }
    return sum;
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def versioned(
    folder: Path,
    code: str,
    name: str,
    target: Target = ARM,
    tuning: Tuning = FAST,
    most_bytes: float = math.inf,
) -> VersionedModule:
    source = folder / "a.c"
    source.write_text(code)
    unit = read_command(["cc", "-O2", "-c", str(source)], folder, "a.c")
    assert isinstance(unit, CompileUnit)
    text = compile_to_ir(unit, target, Compiler()).text
    cores = cores_for(["cortex-a55", "exynos-m4"])
    options = VersionOptions(cores, target, tuning=tuning, most_bytes=most_bytes)
    return make_versions(text, "a.c", "2", [name], options)


def body(module: VersionedModule, label: str = "cortex-a55") -> CompiledVersion:
    (found,) = [body for body in module.bodies if body.label == label]
    return found


def test_which_cores_want_it() -> None:
    has_passes = {
        name: has_machine_passes(load_core(name)) for name in ("cortex-a53", "cortex-a55", "cortex-a75", "cortex-a510")
    }
    assert all(has_passes.values())
    for name in ("cortex-a57", "cortex-a76", "exynos-m4", "apple-firestorm", "znver3"):
        assert not has_machine_passes(load_core(name)), name


@pytest.mark.long
def test_a_version_that_could_not_stay_is_not_tuned(tmp_path: Path) -> None:
    """The bound on growth drops what has more bytes than all versions of a file may add; the search would be lost."""
    plain = body(versioned(tmp_path, DOT, "dot", tuning=replace(FAST, on=False)))
    counted = code_bytes(plain.asm)
    assert 0 < counted <= len(machine_code(plain, tmp_path)) < counted + 64  # the rest is alignment
    kept, dropped = (body(versioned(tmp_path, DOT, "dot", most_bytes=counted - less)) for less in (0, 1))
    assert kept.tuning is not None and kept.asm != plain.asm
    assert dropped.tuning is None and dropped.asm == plain.asm


def machine_code(version: CompiledVersion, folder: Path) -> bytes:
    """Return the machine code of a version."""
    assemble(version.asm, folder / "version.o", ARM, "a version")
    with (folder / "version.o").open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return b"".join(each.data() for each in sections if each["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)


def test_a_version_is_tuned_and_the_steps_are_told_apart(tmp_path: Path) -> None:
    module = versioned(tmp_path, DOT, "dot")
    tuning = body(module).tuning
    assert tuning is not None and tuning.unit == "FLOP"
    assert tuning.tuned is not None and tuning.directive is not None and tuning.generic is not None
    assert tuning.tuned > tuning.directive > 0
    assert any(loop.splits for function in tuning.functions for loop in function.loops)
    assert "ins\tv" in body(module).asm
    modelled = body(module, "exynos-m4").tuning
    assert modelled is not None and modelled.tuned is None and body(module, "generic").tuning is None
    off = versioned(tmp_path, DOT, "dot", tuning=Tuning(on=False))
    untouched = body(off).tuning
    assert untouched is not None and (untouched.functions, untouched.tuned) == ((), None)  # the model's word alone
    assert untouched.directive == tuning.directive and "ins\tv" not in body(off).asm
    assert body(off, "exynos-m4").asm == body(module, "exynos-m4").asm


@pytest.mark.parametrize(
    ("qualifier", "read", "also", "untouched"),
    [
        ("const", "at[i]", "", False),
        ("volatile", "at[i]", "", True),
        ("", "__atomic_load_n(at + i, __ATOMIC_RELAXED)", "", True),
        ("", "at[i]", "__atomic_signal_fence(__ATOMIC_SEQ_CST);", True),
    ],
)
def test_accesses_that_a_program_may_count_on_stay(
    tmp_path: Path, qualifier: str, read: str, also: str, untouched: bool
) -> None:
    module = versioned(tmp_path, COUNT % (qualifier, read, also), "count")
    tuning = body(module).tuning
    assert tuning is not None
    kept = [function.unchanged_because for function in tuning.functions]
    assert all("volatile or relaxed atomic" in why for why in kept) == untouched, kept
    off = versioned(tmp_path, COUNT % (qualifier, read, also), "count", tuning=Tuning(on=False))
    assert (body(off).asm == body(module).asm) == untouched


@pytest.mark.parametrize(
    ("asm", "moves"),
    [('__asm__("prfm pldl1keep, [%0]" :: "r"(at + i + 16));', True), ('__asm__ volatile("" ::: "memory");', False)],
)
def test_inline_assembly_is_a_fence_where_it_clobbers_memory(tmp_path: Path, asm: str, moves: bool) -> None:
    code = COUNT % ("const", "at[i] * i", asm)
    module = versioned(tmp_path, code, "count")
    tuning = body(module).tuning
    assert tuning is not None
    loops = [loop for function in tuning.functions for loop in function.loops]
    assert loops and all((loop.unchanged_because == "a fence in its body") != moves for loop in loops), loops


def test_the_words_of_inline_assembly_in_ir() -> None:
    assert has_open_inline('call void asm sideeffect "prfm pldl1keep, [$0]", "r"(ptr %0)')
    assert not has_open_inline('call void asm sideeffect "", "~{memory}"()')
    assert not has_open_inline('module asm ".globl f"')


def test_macos_assembly_is_left_alone(tmp_path: Path) -> None:
    module = versioned(tmp_path, DOT, "dot", parse_target("aarch64-macos"))
    assert body(module).tuning is None


def job(asm: str, symbol: str = "f") -> TuningJob:
    return TuningJob(load_core("cortex-a55"), asm, symbol, asm, symbol)


LOOP = """
\t.globl\tf
\t.type\tf,@function
f:
.L1:
\tldr\tq0, [x0], #16
\tldr\tq1, [x1], #16
\tfmla\tv16.4s, v0.4s, v1.s[0]
\tfmla\tv17.4s, v0.4s, v1.s[1]
\tfmla\tv18.4s, v0.4s, v1.s[2]
\tfmla\tv19.4s, v0.4s, v1.s[3]
\tsubs\tx2, x2, #1
\tb.ne\t.L1
\tstp\tq16, q17, [x3]
\tstp\tq18, q19, [x3, #32]
\tret
\t.size\tf, .-f
"""


def test_what_was_tuned_once_is_read_back(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tune_version(job(LOOP))
    assert first[1].tuned and list(own_cache.rglob("schedules/*/*"))
    monkeypatch.setattr("mavcg.assembly.tuning.tune", lambda *_, **__: 1 / 0)
    assert tune_version(job(LOOP)) == first
    with pytest.raises(ZeroDivisionError):
        tune_version(job(LOOP.replace("#16", "#32")))


@pytest.mark.long
def test_a_kept_version_of_another_make_is_made_anew(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tune_version(job(LOOP))
    kept = json.dumps(["nop", {"x": 1}]).encode()
    monkeypatch.setattr("mavcg.files.store.EntryStore.get", lambda self, key: kept)
    assert tune_version(job(LOOP)) == first


@pytest.mark.long
def test_several_at_a_time_come_back_in_order() -> None:
    jobs = [job(LOOP), replace(job(LOOP), core=load_core("cortex-a53")), job(LOOP.replace("f:", "f:\n\tnop"))]
    done: list[int] = []
    at_once = tune_versions(jobs, 2, lambda: done.append(1))
    assert len(done) == 3 and at_once == tune_versions(jobs, 1, lambda: None)
    assert len({made[0] for made in at_once if isinstance(made, tuple)}) == 3


@needs_qemu
def test_the_tuned_version_gives_the_same_bits(tmp_path: Path) -> None:
    module = versioned(tmp_path, DOT, "dot", parse_target("aarch64-linux-musl"))
    main = """
#include <stdio.h>
float tuned(const float *, const float *, long) __asm__("dot.cortex-a55");
float generic(const float *, const float *, long) __asm__("dot.generic");
int main(void) {
    float a[400], b[400];
    for (int i = 0; i < 400; i++) { a[i] = 1.0f / (i + 1); b[i] = (i * 7919 % 101) * 0.37f - 11; }
    for (long n = 1; n <= 100; n++) {
        float x = tuned(a, b, n), y = generic(a, b, n);
        if (x != y) { printf("%ld %a %a\\n", n, x, y); return 1; }
    }
    puts("same");
}
"""
    target = parse_target("aarch64-linux-musl")
    objects = []
    for label in ("generic", "cortex-a55"):
        assemble(body(module, label).asm, tmp_path / f"{label}.o", target, label)
        objects.append(str(tmp_path / f"{label}.o"))
    (tmp_path / "main.c").write_text(main)
    from mavcg.toolchain.zig import run_zig

    run_zig(
        "cc",
        ["-target", target.zig_name, "-O1", str(tmp_path / "main.c"), *objects, "-o", str(tmp_path / "main")],
        "linking",
    )
    assert QEMU is not None
    ran = subprocess.run([QEMU, str(tmp_path / "main")], capture_output=True, text=True, check=False)
    assert ran.stdout == "same\n", ran.stdout + ran.stderr
