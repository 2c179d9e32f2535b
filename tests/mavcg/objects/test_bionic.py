"""Libraries for Android, linked without an NDK: what they need by name, and from whom."""

from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.errors import MavcgError
from mavcg.objects.elf import imports_of
from mavcg.objects.library import NO_OPTIONS, bionic_names, link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

# The Android Open Source Project's bionic, docs/status.md, "libc API additions": the level a function came with.
SINCE_LEVEL_22_OR_LATER = {
    "libc.so": {"process_vm_readv", "telldir", "seekdir", "aligned_alloc", "getrandom", "pthread_barrier_init", "bcmp"},
    "libm.so": {"clog", "cpow"},
    "libdl.so": {"dlvsym"},
}
SINCE_LEVEL_21 = {
    "libc.so": {"dprintf", "posix_memalign", "getauxval", "sched_getcpu", "environ", "__errno", "__stack_chk_fail"},
    "libm.so": {"exp", "expf", "tanhf", "fma", "sincosf"},
    "libdl.so": {"dlopen", "dladdr", "dl_iterate_phdr"},
}
OF_GLIBC = {"__errno_location", "__isoc99_sscanf", "__environ", "__rseq_offset", "__libc_start_main"}


def linked(folder: Path, target: str, source: str, options: LinkOptions = NO_OPTIONS) -> Path:
    (folder / "x.c").write_text(source)
    flags = [*PLAIN_CODE_FLAGS, "-w", "-O1", "-fPIC", "-fno-builtin", "-c"]
    run_zig("cc", ["-target", target.replace("android", "musl"), *flags, "x.c", "-o", "x.o"], "compiling", folder)
    link_shared([folder / "x.o"], folder / "libx.so", parse_target(target), options=options)
    return folder / "libx.so"


def test_the_table_agrees_with_bionic_s_status_page() -> None:
    names = bionic_names()

    assert set(names) == {"libc.so", "libm.so", "libdl.so"}
    for library, defined in names.items():
        assert SINCE_LEVEL_21[library] <= defined
        assert not SINCE_LEVEL_22_OR_LATER[library] & defined
        assert not OF_GLIBC & defined


@pytest.mark.parametrize("target", ["aarch64-linux-android", "x86_64-linux-android"])
def test_a_library_names_the_libraries_that_it_takes_names_from(target: str, tmp_path: Path) -> None:
    out = linked(tmp_path, target, "double exp(double); void *malloc(); double f() { malloc(); return exp(1); }")
    libraries, symbols = imports_of(out)

    assert libraries == ["libc.so", "libm.so"]
    assert symbols == ["exp", "malloc"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["libx.so", "x.c", "x.o"]  # no stub stays


def test_a_weak_reference_names_its_library(tmp_path: Path) -> None:
    source = "void *dlopen() __attribute__((weak)); void *f() { return dlopen ? dlopen() : 0; }"
    assert imports_of(linked(tmp_path, "aarch64-linux-android", source)) == (["libdl.so"], ["dlopen"])


def test_a_program_s_own_names_are_left_to_the_loader(tmp_path: Path) -> None:
    source = "int other(void); int f() { return other(); }"
    assert imports_of(linked(tmp_path, "aarch64-linux-android", source)) == ([], ["other"])


@pytest.mark.parametrize("target", ["aarch64-linux-android", "x86_64-linux-android"])
def test_pages_of_16_kib_and_both_hash_tables(target: str, tmp_path: Path) -> None:
    """API levels before 23 read DT_HASH alone; Android 15 loads libraries by pages of 16 KiB."""
    out = linked(tmp_path, target, "int table[9] = {1}; int f(int i) { return table[i]; }")
    with out.open("rb") as file:
        elf: Any = ELFFile(file)
        aligns = [s["p_align"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        tags = {tag.entry.d_tag for tag in elf.get_section_by_name(".dynamic").iter_tags()}

    assert len(aligns) > 1 and set(aligns) == {16384}
    assert {"DT_HASH", "DT_GNU_HASH"} <= tags


@pytest.mark.parametrize("name", ["libc.so", "libm.so", "libdl.so"])
def test_a_library_with_a_name_of_the_system_s_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=rf"{name}: is the name of Android's own library"):
        linked(tmp_path, "aarch64-linux-android", "int f() { return 1; }", LinkOptions(soname=name))
    assert not (tmp_path / "libx.so").exists()
