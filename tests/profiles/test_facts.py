"""The facts themselves, against other sources than the files name: LLVM, a second compiler, MIDR values as seen."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from mavcg.hardware.core import Core
from mavcg.hardware.extensions import hwcap_words
from mavcg.profiles.audit import audit, unknown_to_llvm
from mavcg.profiles.load import cores_for, load_boards, load_cores
from mavcg.runtime.coreset import FIRST_CORE_ID, GENERIC_ID, CoreSet, stand_in_id, versions_for

# MIDR_EL1 as real machines printed it: pytorch/cpuinfo's comments and mocks, ThomasKaiser/sbc-bench.
SEEN = {
    0x410FD034: "cortex-a53",
    0x410FD051: "cortex-a55-r0",
    0x411FD050: "cortex-a55",
    0x412FD050: "cortex-a55",
    0x410FD083: "cortex-a72",
    0x410FD092: "cortex-a73",
    0x412FD0A1: "cortex-a75",
    0x414FD0B1: "cortex-a76",
    0x481FD400: "cortex-a76",
    0x413FD0C1: "neoverse-n1",
    0x517F803C: "cortex-a55-r0",
    0x516F802D: "cortex-a75-r0",
    0x51AF8014: "cortex-a53",
    0x51DF805E: "cortex-a55",
    0x531F0011: "exynos-m1",
    0x534F0010: "exynos-m2",
    0x531F0020: "exynos-m3",
    0x531F0030: "exynos-m4",
    0x531F0040: "exynos-m5",
    0x611F0221: "apple-icestorm",
    0x612F0251: "apple-firestorm",
}


@pytest.mark.parametrize(("midr", "name"), SEEN.items(), ids=lambda v: f"{v:#x}" if isinstance(v, int) else v)
def test_seen_midr_is_one_core(midr: int, name: str) -> None:
    found = [core.name for core in load_cores().values() if any(rule.matches(midr) for rule in core.midr)]

    assert found == [name]


@pytest.mark.parametrize("midr", [0, 0x701F6622, 0x530F0010, 0x410FC074])
def test_unknown_midr_is_no_core(midr: int) -> None:
    assert not [core.name for core in load_cores().values() if any(rule.matches(midr) for rule in core.midr)]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("AuthenticAMD", 25, 1, "znver3"),  # EPYC 7xx3
        ("AuthenticAMD", 25, 17, "znver4"),  # EPYC 9xx4
        ("AuthenticAMD", 23, 49, "znver2"),  # EPYC 7xx2
        ("GenuineIntel", 6, 85, "skylake-avx512"),
        ("GenuineIntel", 6, 106, "icelake-server"),
        ("GenuineIntel", 6, 143, "sapphirerapids"),
    ],
)
def test_server_model_is_one_core(vendor: str, family: int, model: int, name: str) -> None:
    found = [c.name for c in load_cores().values() if any(m.matches(vendor, family, model) for m in c.x86_models)]

    assert found == [name]


def test_alder_lake_model_is_one_core_of_each_kind() -> None:
    cores = load_cores().values()

    found = {c.x86_kind: c.name for c in cores if any(m.matches("GenuineIntel", 6, 154) for m in c.x86_models)}

    assert found == {"core": "intel-golden-cove", "atom": "intel-gracemont"}


def test_audit_finds_nothing_in_our_files() -> None:
    assert audit() == ()


def test_llvm_check_sees_names_that_llvm_lacks() -> None:
    core = load_cores()["cortex-a55"]
    lacking = {
        "cpu": replace(core, name="cpu", llvm_cpu="cortex-a5555"),
        "tune": replace(core, name="tune", llvm_tune="exynos-m1"),  # LLVM dropped it
        "features": replace(core, name="features", llvm_features=("+nonsuch",)),
        "good": replace(core, name="good", llvm_features=("-sve",)),
    }

    faults = unknown_to_llvm(lacking)

    assert [fault.split(":")[0] for fault in faults] == ["cores/cpu.toml", "cores/tune.toml", "cores/features.toml"]


def user_file(folder: Path, kind: str, name: str, text: str) -> None:
    (folder / kind).mkdir(exist_ok=True)
    (folder / kind / f"{name}.toml").write_text(text)


HEAD = 'name = "mine"\narch = "aarch64"\ndescription = "My core"\norder = { value = "in", source = "manual" }\n'
LLVM = '[llvm]\ncpu = "cortex-a53"\nsource = "manual"\n'
OWN = 'midr = [{ implementer = 0x99, part = 0x1, source = "manual" }]\n'
BOARD = 'name = "b"\nsoc = "B"\ntarget = "{}"\nsource = "manual"\n[[clusters]]\ncore = "{}"\ncpus = "0"\n'


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + LLVM, "mine.toml: midr: missing, so no CPU is recognised as this core"),
        (HEAD + OWN.replace("0x99", "0x41").replace("0x1,", "0xd05, variant_min = 2,") + LLVM, "cortex-a55.toml: midr"),
        (HEAD + OWN + 'stand_ins = { value = ["cortex-b1"], source = "m" }\n' + LLVM, "cortex-b1 is not a known core"),
        (HEAD + OWN + 'stand_ins = { value = ["znver3"], source = "m" }\n' + LLVM, "znver3 is x86_64, not aarch64"),
        (HEAD + OWN + 'stand_ins = { value = ["mine"], source = "m" }\n' + LLVM, "mine is the core itself"),
        (HEAD + OWN + LLVM.replace("cortex-a53", "cortex-b1"), "LLVM does not know 'cortex-b1'"),
        (HEAD + OWN + '[llvm]\ncpu = "cortex-a53"\n', "mine.toml: llvm: no source; add one or remove the fact"),
    ],
)
def test_audit_names_the_fault_of_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    user_file(tmp_path, "cores", "mine", text)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    faults = audit()

    assert len(faults) == 1 and said in faults[0]


@pytest.mark.parametrize(
    ("target", "core", "said"),
    [
        ("aarch64-linux-gnu.2.17", "cortex-b1", "clusters: cortex-b1 is not a known core"),
        ("x86_64-linux-gnu.2.17", "cortex-a53", "cortex-a53 is aarch64, but target is x86_64-linux-gnu.2.17"),
    ],
)
def test_audit_names_the_fault_of_a_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, core: str, said: str
) -> None:
    user_file(tmp_path, "boards", "b", BOARD.format(target, core))
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    faults = audit()

    assert len(faults) == 1 and said in faults[0]


def test_audit_sees_two_x86_cores_of_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = 'x86_models = [{ vendor = "AuthenticAMD", family = 0x19, models = [0x21], source = "manual" }]\n'
    text = HEAD.replace("aarch64", "x86_64") + models + LLVM.replace("cortex-a53", "znver3")
    user_file(tmp_path, "cores", "mine", text)
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert ["family 0x19 model 0x21 is also znver3" in fault for fault in audit()] == [True]


@cache
def instruction_sets(core: Core) -> set[str]:
    """What ziglang's clang predefines for the core's CPU and features: one macro for each extension."""
    signed = "".join(feature[0] + feature[1:].replace("-", "_") for feature in core.llvm_features)
    # zig's own parser drops a name without what stands on it; LLVM's drops both (the tests of machine code below).
    signed += "-sve2" if "-sve" in core.llvm_features else ""
    signed += "-v8_1a-v8_2a" if "-lse" in core.llvm_features else ""
    cpu = core.llvm_cpu.replace("-", "_") + signed
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{core.arch}-linux-gnu", f"-mcpu={cpu}"]
    command = [*zig, "-dM", "-E", "-x", "c", "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in text.splitlines()]
    prefix = "__ARM_FEATURE_" if core.arch == "aarch64" else "__"
    ours = {words[1] for words in lines if len(words) == 3 and words[1].startswith(prefix) and words[2] == "1"}
    named_after_cpu = {f"__{core.llvm_cpu}__", f"__{core.llvm_cpu}"}
    return {macro for macro in ours - named_after_cpu if not macro.startswith(("__znver", "__tune_", "__GCC_"))}


@pytest.mark.long
def test_a_stand_in_uses_only_what_the_core_has() -> None:
    """A stand-in's version with one more extension would be an illegal instruction on the core, unless the selector
    asks the kernel for it first."""
    cores = load_cores()
    all_pairs = [(core, cores[name]) for core in cores.values() for name in core.stand_ins]
    pairs = [(core, other) for core, other in all_pairs if stand_in_id(core, CoreSet((other,))) != GENERIC_ID]
    sets = {core.name: instruction_sets(core) for pair in pairs for core in pair}

    too_much = {(core.name, other.name): sets[other.name] - sets[core.name] for core, other in pairs}

    assert len(sets) > 40 and all(sets.values())
    assert {pair: more for pair, more in too_much.items() if more} == {}


def test_an_early_revision_runs_the_later_ones_version_where_the_kernel_shows_what_it_needs() -> None:
    cores = load_cores()

    early = replace(cores["cortex-a75-r0"], stand_ins=("cortex-a75", "cortex-a73"))
    later = CoreSet((cores["cortex-a75"], cores["cortex-a73"]))

    # The selector passes over a version whose needs the kernel does not report.
    assert list(versions_for(early, later, {"cortex-a75": hwcap_words(["dotprod"])})) == [
        later.id_of(n) for n in later.names
    ]
    assert list(versions_for(early, later, {})) == [FIRST_CORE_ID]


def test_a_version_runs_on_every_core_of_its_boards() -> None:
    """The thread that runs a version can be moved in mid-function to any other core of the board."""
    cores = load_cores()
    for board in load_boards().values():
        for version in cores_for(board.cores):
            used = instruction_sets(version)
            missing = {name: sorted(used - instruction_sets(cores[name])) for name in board.cores}
            assert {name: more for name, more in missing.items() if more} == {}, f"{board.name}: {version.name}"


def test_only_what_a_mate_lacks_is_switched_off() -> None:
    features = {core.name: core.llvm_features for core in cores_for(["cortex-a55", "cortex-a55-r0", "cortex-a76"])}

    assert features["cortex-a55"] == ("-rcpc",)  # the Exynos 9820's M4 has none
    assert features["cortex-a55-r0"] == ("-dotprod", "-fullfp16", "-lse", "-rcpc", "-rdm")  # the 9810's M3 is Armv8.0
    assert features["cortex-a76"] == ()  # it sits beside A55 only, which has all that it has


# What compiled code can hold unasked, or by intrinsics; the rest of LLVM's names tune, or are the system's business.
EXTENSIONS = set(
    "aes altnzcv bf16 complxnum crc dotprod flagm fp16fml fptoint fullfp16 i8mm jsconv lse lse2 mte pauth rand rcpc "
    "rcpc-immo rdm sha2 sha3 sm4 sve sve2 sve-bitperm wfxt cssc mops rcpc3 lse128 hbc sme sme2 f8fma ls64".split()
)


@pytest.mark.long
def test_extensions_are_those_that_clang_compiles_for(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("void f(void) {}\n")
    arm = [core for core in load_cores().values() if core.arch == "aarch64"]
    for core in arm:
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu"]
        mcpu = f"-mcpu={core.llvm_cpu.replace('-', '_')}"
        command = [*zig, mcpu, "-S", "-emit-llvm", "f.c", "-o", "f.ll"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        text = re.search(r'"target-features"="([^"]*)"', (tmp_path / "f.ll").read_text())
        assert text is not None
        on = {feature[1:] for feature in text[1].split(",") if feature[0] == "+"} & EXTENSIONS
        off = {feature[1:] for feature in core.llvm_features}
        off |= {"sve2", "sve-bitperm"} if "sve" in off else set()

        assert set(core.extensions) == on - off, core.name


def test_dot_product_is_where_the_silicon_has_it() -> None:
    """pytorch/cpuinfo src/arm/linux/aarch64-isa.c: A55 from r1, A75 from r2, Exynos M4 and M5."""
    cores = load_cores()
    asked = ("cortex-a53", "cortex-a55-r0", "cortex-a55", "cortex-a75-r0", "cortex-a75", "exynos-m3", "exynos-m4")

    has_dot = [name for name in asked if "__ARM_FEATURE_DOTPROD" in instruction_sets(cores[name])]

    assert has_dot == ["cortex-a55", "cortex-a75", "exynos-m4"]


COMPILE = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
module = llvm.parse_assembly(sys.stdin.read())
machine = llvm.Target.from_triple(module.triple).create_target_machine(opt=3)
options = llvm.create_pipeline_tuning_options(speed_level=3)
options.loop_vectorization = True
builder = llvm.create_pass_builder(machine, options)
builder.getModulePassManager().run(module, builder)
sys.stdout.write(machine.emit_assembly(module))
"""
LOOP = """target triple = "aarch64-unknown-linux-gnu"
define void @f(ptr noalias %to, ptr noalias %from, i64 %n) "target-cpu"="CPU" "target-features"="FEATURES" {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = getelementptr float, ptr %from, i64 %i
  %v = load float, ptr %a
  %w = fmul float %v, 3.0
  %b = getelementptr float, ptr %to, i64 %i
  store float %w, ptr %b
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def vector_loop(cpu: str, features: str) -> str:
    return machine_code(LOOP.replace("CPU", cpu).replace("FEATURES", features))


def machine_code(text: str) -> str:
    run = subprocess.run([sys.executable, "-c", COMPILE], input=text, capture_output=True, text=True, check=True)
    return run.stdout


ATOMICS = """target triple = "aarch64-unknown-linux-gnu"
define i64 @f(ptr %p) "target-cpu"="CPU" "target-features"="FEATURES" {
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %now = load atomic i64, ptr %p acquire, align 8
  %sum = add i64 %old, %now
  ret i64 %sum
}
"""


def test_machine_code_keeps_to_what_the_mates_have() -> None:
    a55, r0 = cores_for(["cortex-a55", "cortex-a55-r0"])
    alone = machine_code(ATOMICS.replace("CPU", "cortex-a55").replace("FEATURES", ""))
    beside_m4 = machine_code(ATOMICS.replace("CPU", a55.llvm_cpu).replace("FEATURES", ",".join(a55.llvm_features)))
    beside_m3 = machine_code(ATOMICS.replace("CPU", r0.llvm_cpu).replace("FEATURES", ",".join(r0.llvm_features)))

    assert "ldadd" in alone and "ldapr" in alone
    assert "ldadd" in beside_m4 and "ldapr" not in beside_m4 and "ldar" in beside_m4
    assert "ldadd" not in beside_m3 and "ldapr" not in beside_m3 and "ldxr" in beside_m3


def test_sve_stays_off() -> None:
    """Phones hide SVE behind an unchanged MIDR_EL1: no core's code may name an SVE register."""
    with_sve = {name for name, core in load_cores().items() if "-sve" in core.llvm_features}

    assert {"cortex-a510", "cortex-a710", "cortex-x2", "neoverse-v1"} <= with_sve
    assert re.search(r"\bz\d+\b", vector_loop("neoverse-v1", ""))
    assert not re.search(r"\bz\d+\b", vector_loop("neoverse-v1", "-sve"))


def test_a_board_has_each_cpu_once_and_from_zero() -> None:
    for board in load_boards().values():
        cpus = sorted(cpu for cluster in board.clusters for cpu in cluster.cpus)
        assert cpus == list(range(len(cpus))), board.name
