"""The runtime object: every target compiles, nothing of a libc is needed, nothing but its own names comes out."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.errors import MavcgError, ToolError
from mavcg.files import store
from mavcg.hardware.core import Core, Midr, X86Model
from mavcg.runtime import build, core_speeds, coreset
from mavcg.runtime.amalgamation import SOURCES, UNITS, unit_files
from mavcg.runtime.build import runtime_object
from mavcg.runtime.coreset import CoreSet, midr_rules, ranges, symbols, table_text
from mavcg.runtime.needs import compiler_extensions, x86_needs
from mavcg.toolchain.target import host_target, parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_tool, run_zig, zig_program

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

ARM = (
    Core("cortex-a55", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),
    Core("cortex-a75", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    Core("exynos-m4", "aarch64", "out", "exynos-m4", "", (Midr(0x53, 0x003),)),
)
INTEL = (
    Core(
        "p", "x86_64", "out", "alderlake", "", x86_kind="core", x86_models=(X86Model("GenuineIntel", 6, (0x97, 0x9A)),)
    ),
    Core("e", "x86_64", "out", "gracemont", "", x86_kind="atom"),
)
ALLOWED_UNDEFINED = {
    "__environ",
    "environ",
    "getauxval",
    "__rseq_offset",
    "__rseq_size",
    "sched_getcpu",
    "__errno_location",
}
ELF_TARGETS = [
    "aarch64-linux-gnu.2.17",
    "aarch64-linux-musl",
    "aarch64-linux-android",
    "x86_64-linux-gnu.2.17",
    "x86_64-linux-musl",
]


def section(elf: ELFFile, name: str) -> Any:  # pyelftools types every section alike
    return elf.get_section_by_name(name)


def core_set_for(target: str) -> CoreSet:
    return CoreSet(ARM if target.startswith("aarch64") else INTEL)


@pytest.mark.parametrize("target", ELF_TARGETS)
def test_needs_no_libc_and_shows_only_its_names(target: str, tmp_path: Path) -> None:
    core_set = core_set_for(target)
    path = runtime_object(core_set, {}, parse_target(target), tmp_path)
    with path.open("rb") as file:
        elf = ELFFile(file)
        symbol_table = [s for s in section(elf, ".symtab").iter_symbols() if s["st_info"]["bind"] != "STB_LOCAL"]
        code_bytes = sum(s["sh_size"] for s in elf.iter_sections() if s["sh_flags"] & 4)  # SHF_EXECINSTR
    undefined = {s.name: s["st_info"]["bind"] for s in symbol_table if s["st_shndx"] == "SHN_UNDEF" and s.name}
    defined = {
        s.name: (s["st_info"]["bind"], s["st_other"]["visibility"])
        for s in symbol_table
        if s["st_shndx"] != "SHN_UNDEF"
    }
    names = symbols(core_set)

    assert set(undefined) <= ALLOWED_UNDEFINED and set(undefined.values()) == {"STB_WEAK"}
    assert set(defined) == {names.rseq_offset, names.core_of_cpu, names.select, f"mavcg_state_{core_set.tag}"}
    assert set(defined.values()) == {("STB_WEAK", "STV_HIDDEN")}
    assert code_bytes < 9200
    assert [path.name for path in tmp_path.iterdir()] == [f"mavcg_runtime_{core_set.tag}.o"]


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
def test_macos_objects_compile(target: str, tmp_path: Path) -> None:
    assert (
        runtime_object(core_set_for(target), {}, parse_target(target), tmp_path).read_bytes()[:4] == b"\xcf\xfa\xed\xfe"
    )


def test_the_same_input_builds_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled in two caches, and taken from the second."""
    target = parse_target("aarch64-linux-gnu.2.17")
    made = []
    for number, cache in enumerate(("one", "two", "two")):
        monkeypatch.setattr(store, "code_folder", lambda cache=cache: tmp_path / cache)
        made.append(runtime_object(CoreSet(ARM), {}, target, tmp_path / str(number)).read_bytes())

    assert made[0] == made[1] == made[2]
    assert len(list((tmp_path / "two").glob("selector-*.o"))) == 1


def test_no_object_is_taken_from_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "code_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(store, "is_own_folder", lambda folder: False)
    made = runtime_object(CoreSet(ARM), {}, parse_target("aarch64-linux-gnu.2.17"), tmp_path / "out")

    assert made.read_bytes()[:4] == b"\x7fELF" and not (tmp_path / "cache").exists()


@pytest.mark.long
def test_another_core_set_or_part_of_it_is_another_object(tmp_path: Path) -> None:
    target = parse_target("aarch64-linux-gnu.2.17")
    made = {
        runtime_object(CoreSet(ARM[:cores]), {}, target, tmp_path / f"{cores}{unit}", unit).read_bytes()
        for cores in (1, len(ARM))
        for unit in ("runtime", "linked_set", "shared_set")
    }

    assert len(made) == 6


def test_a_core_of_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="core p: is x86_64, and --target aarch64-linux-musl is not"):
        runtime_object(CoreSet((*ARM, INTEL[0])), {}, parse_target("aarch64-linux-musl"), tmp_path)


def test_android_libraries_link_without_a_libc(tmp_path: Path) -> None:
    target = parse_target("aarch64-linux-android")
    runtime = runtime_object(CoreSet(ARM), {}, target, tmp_path)
    source = tmp_path / "which.c"
    names = symbols(CoreSet(ARM))
    declared = f'extern void *{names.select}(void *) __attribute__((visibility("hidden")));'
    source.write_text(f"{declared}\nvoid *f(void *function) {{ return {names.select}(function); }}\n")
    out = tmp_path / "libwhich.so"
    arguments = [
        "-target",
        target.zig_name,
        *PLAIN_CODE_FLAGS,
        "-O2",
        "-fPIC",
        "-shared",
        "-nostdlib",
        str(source),
        str(runtime),
    ]
    run_zig("cc", [*arguments, "-Wl,-z,max-page-size=16384", "-o", str(out)], "linking")
    with out.open("rb") as file:
        elf = ELFFile(file)
        exported = {s.name for s in section(elf, ".dynsym").iter_symbols() if s["st_shndx"] != "SHN_UNDEF" and s.name}
        needed = [tag.needed for tag in section(elf, ".dynamic").iter_tags() if tag.entry.d_tag == "DT_NEEDED"]

    assert exported == {"f"} and needed == []


def test_two_objects_with_the_runtime_share_one(build: Build, run: Run, two_cores: CoreSet, tmp_path: Path) -> None:
    """`mavcg launch` puts the runtime into each object: linked together there is one table, and one print."""
    program = build("which.c", two_cores)
    runtime = runtime_object(two_cores, {}, host_target(), tmp_path)
    other = runtime_object(two_cores, {}, host_target(), tmp_path / "again")
    out = tmp_path / "twice"
    folder = Path(__file__).parent / "programs"
    arguments = [
        "-target",
        host_target().zig_name,
        "-std=gnu11",
        "-O2",
        *PLAIN_CODE_FLAGS,
        "-D_GNU_SOURCE",
        f"-DSET={two_cores.tag}",
        f"-I{SOURCES}",
        f"-I{folder}",
    ]
    run_zig("cc", [*arguments, str(folder / "which.c"), str(runtime), str(other), "-o", str(out)], "linking twice")
    environment = {"MAVCG_TRACE": "1,cpus", "MAVCG_CPU_MAP": "all=b"}

    assert run(out, "0", **environment).stderr == run(program, "0", **environment).stderr != ""


def test_the_header_and_python_agree() -> None:
    header = (SOURCES / "mavcg_runtime.h").read_text()
    defined = dict(re.findall(r"^#define (MAVCG_\w+) (\d+)$", header, re.MULTILINE))

    assert defined == {
        "MAVCG_ABI": str(coreset.RUNTIME_ABI),
        "MAVCG_CPUS": str(coreset.TABLE_CPUS),
        "MAVCG_RSEQ_CPU_ID": "4",  # struct rseq.cpu_id, Linux include/uapi/linux/rseq.h
    }
    ids = {"NOT_KNOWN": coreset.SLOW_ID, "GENERIC": coreset.GENERIC_ID, "FIRST_CORE": coreset.FIRST_CORE_ID}
    assert ", ".join(f"MAVCG_{name} = {number}" for name, number in ids.items()) in header
    assert f"NEED_WORDS = {coreset.NEED_WORDS}" in (SOURCES / "internal.h").read_text()
    engine = (SOURCES / "engine.h").read_text()
    assert f"MAX_THREADS = {core_speeds.MAX_THREADS}," in engine
    assert f"CORE_IDS = {core_speeds.CORE_WORDS * core_speeds.WORD_BITS}, CORE_WORD = {core_speeds.WORD_BITS}" in engine
    assert f"DEFAULT_SPEED = {core_speeds.DEFAULT_SPEED} }}" in (SOURCES / "engine_pool.c").read_text()


def test_symbols_depend_on_the_names_in_order() -> None:
    one, other = CoreSet(ARM), CoreSet(ARM[::-1])

    assert symbols(one) == symbols(CoreSet(ARM)) != symbols(other)
    assert re.fullmatch(r"mavcg_select_[0-9a-f]{16}", symbols(one).select)


@pytest.mark.parametrize("names", [("a", "a"), ("generic",), tuple(f"c{i}" for i in range(coreset.MAX_CORES + 1))])
def test_core_sets_that_cannot_be(names: tuple[str, ...]) -> None:
    with pytest.raises(MavcgError, match="^cores: "):
        CoreSet(tuple(Core(name, "aarch64", "in", name, "") for name in names))


def test_the_largest_core_set_compiles(tmp_path: Path) -> None:
    cores = tuple(Core(f"c{i}", "aarch64", "in", "generic", "", (Midr(0x41, i),)) for i in range(coreset.MAX_CORES))
    core_set = CoreSet(cores)

    assert core_set.id_of(cores[-1].name) == 255
    runtime_object(core_set, {}, parse_target("aarch64-linux-musl"), tmp_path)


def test_stand_ins() -> None:
    """Best first; only one's own stand-ins count; a core without one is left to the generic version."""
    others = [
        Core("x", "aarch64", "out", "x", "", (Midr(1, 1),), stand_ins=("exynos-m4", "cortex-a75")),
        Core("y", "aarch64", "out", "y", "", (Midr(1, 2),), stand_ins=("cortex-a75", "exynos-m4")),
        Core("z", "aarch64", "out", "z", "", (Midr(1, 3),), stand_ins=("x",)),
    ]
    rules = {rule.core: rule.number for rule in midr_rules(CoreSet(ARM), {core.name: core for core in others}, {})}

    assert rules == {"cortex-a55": 2, "cortex-a75": 3, "exynos-m4": 4, "x": 4, "y": 3}


def test_ranges() -> None:
    assert ranges([7, 1, 2, 3, 3]) == [(1, 3), (7, 7)] and ranges([]) == []


def test_needs_in_c() -> None:
    assert "0x00000000" not in table_text(CoreSet(ARM), {}, {core.name: [1] * 7 for core in ARM})


def test_instructions_that_a_version_may_use() -> None:
    """Against the manuals: FMA is CPUID 1 ECX bit 12, AVX2 is 7 EBX bit 5, AVX-512F bit 16 and XCR0 bits 5 to 7."""

    def needs(cpu: str, *features: str) -> tuple[int, ...]:
        return x86_needs(Core("x", "x86_64", "out", cpu, "", llvm_features=features))

    assert needs("x86-64") == (0, 0, 0, 0, 0, 0, 0)
    assert needs("haswell")[0] >> 12 & 1 and needs("haswell")[1] >> 5 & 1 and needs("haswell")[6] == 6
    assert needs("icelake-server")[1] >> 16 & 1 and needs("icelake-server")[6] == 0xE6
    assert needs("icelake-server")[2] >> 8 & 1 and not needs("icelake-server", "-gfni")[2] >> 8 & 1


def test_instruction_sets_have_llvms_names(tmp_path: Path) -> None:
    """Clang ignores an attribute with an unknown name, and says so."""
    haswell, zen4 = compiler_extensions("haswell", ()), compiler_extensions("znver4", ("-avx512fp16",))

    assert {"avx2", "fma", "bmi2", "sse4.2"} <= haswell and "avx512f" not in haswell
    assert {"avx512vnni", "avx512bf16", "sse4a"} <= zen4 - haswell and not compiler_extensions("x86-64", ())
    header = (SOURCES / "x86_needs.h").read_text()
    names = {line.split()[3] for line in header.splitlines() if line.startswith("need ")}
    source = "".join(
        f'__attribute__((target("{name}"))) void f{n}(void) {{}}\n' for n, name in enumerate(sorted(names))
    )
    (tmp_path / "names.c").write_text(source)
    clang = [zig_program(), "clang", "-target", "x86_64-linux-gnu", "-Werror", "-fsyntax-only"]
    assert len(names) > 30 and run_tool([*clang, str(tmp_path / "names.c")], "reading names of instruction sets") == ""


@pytest.mark.skipif(parse_target("x86_64-linux-gnu").arch != host_target().arch, reason="needs an x86 processor")
def test_a_version_that_this_processor_lacks_instructions_for(build_whole: Build, run: Run) -> None:
    """A virtual machine may show a model and hide some of its instructions: then the generic version runs."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    identity = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    here = X86Model(identity["vendor_id"], int(identity["cpu family"]), (int(identity["model"]),))
    core = Core("here", "x86_64", "out", "x86-64", "", x86_models=(here,))
    impossible = [0, 0, 0, 0, 0, 0, 1 << 31]  # an XCR0 bit that no processor has
    for needs, expected in (([0] * 7, "2"), (impossible, "1")):
        program = build_whole("which.c", CoreSet((core,)), needs={"here": needs})
        done = run(program)
        assert f"main {expected}\n" in done.stdout
    complaint = run(program, MAVCG_CPU_MAP="0=here").stderr
    assert "'0=here' names a core whose instructions this processor does not all have" in complaint


def test_a_failed_compile_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(build, "RUNTIME_FLAGS", (*build.RUNTIME_FLAGS, "-DMAVCG_CPUS=)"))
    with pytest.raises(ToolError, match="compiling the runtime for aarch64-linux-musl"):
        runtime_object(CoreSet(ARM), {}, parse_target("aarch64-linux-musl"), tmp_path)
    assert os.listdir(tmp_path) == []


def test_every_c_file_is_part_of_a_unit() -> None:
    """But the header that is only preprocessed (x86_needs.h)."""
    files = {name for unit in UNITS for name in unit_files(unit)}

    assert {path.name for path in SOURCES.glob("*.[ch]")} == files | {"x86_needs.h"}
