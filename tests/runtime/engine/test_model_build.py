"""A model library from outside: what it exports and needs, its companions in C, C++, pkg-config and CMake builds."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.objects.elf import exported_symbols, protection
from mavcg.objects.library import link_shared
from mavcg.runtime import unit_object
from mavcg.runtime.companions import write_companions
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.model_build import build_model_objects, constants_object, sizes_task
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from mavcg.toolchain.target import host_target, parse_target
from mavcg.toolchain.zig import protection_flags, run_zig, zig_command

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

HERE = Path(__file__).parent
API = {
    "create",
    "destroy",
    "run",
    "run_sized",
    "profile",
    "cancel",
    "threads",
    "inputs",
    "outputs",
    "steps",
    "error_text",
    "states",
    "reset",
    "state_size",
    "state_save",
    "state_restore",
}
LIBC = {
    "calloc",
    "free",
    "posix_memalign",
    "mmap",
    "munmap",
    "madvise",
    "memset",
    "getpid",
    "syscall",
    "clock_gettime",
    "pthread_create",
    "pthread_join",
    "pthread_sigmask",
    "sched_yield",
    "sigfillset",
    "pthread_attr_init",
    "pthread_attr_setstacksize",
    "pthread_attr_destroy",
    "pthread_self",
    "pthread_setname_np",
    "getenv",
    "getauxval",
    "strlen",
    "writev",
    "sysconf",
}
STACK_GUARD = {"__stack_chk_fail", "__stack_chk_guard"}  # in glibc for aarch64 the dynamic loader's
TARGETS = [
    "aarch64-linux-gnu.2.17",
    "aarch64-linux-musl",
    "aarch64-linux-android",
    "x86_64-linux-gnu.2.17",
    "x86_64-linux-musl",
    "x86_64-linux-android",
]


def value_of_zeros(at: int = 1) -> str:
    """y[at] of the exercise for zeros."""
    weights = np.arange(1000) % 17 * 0.25
    values = np.zeros(1000)
    for _ in range(12):
        values = values[::-1] * 0.5 + weights
    return f"{values[at]:g}"


def dynamic(path: Path) -> Any:
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        table = list(elf.get_section_by_name(".dynsym").iter_symbols())
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        sections = {s.name: (s["sh_flags"], s["sh_addr"], s["sh_size"]) for s in elf.iter_sections()}
        return table, tags, sections


def tiny(kernel: str = "k_1") -> Program:
    t = TensorType("f32", (4,))
    step = ProgramStep(
        "n", "k", kernel, (OperandAddress("input"), OperandAddress("constants"), OperandAddress("output")), 4, 4, 4
    )
    return Program("tiny", (ProgramTensor("x", t),), (ProgramTensor("y", t),), (step,), 0, 0, 5000, 0)


def tiny_kernel(folder: Path, target: str) -> Path:
    source = folder / "k.c"
    source.write_text(
        'void k(void *const *operands, long begin, long end, void *scratch) __asm__("k_1.generic");\n'
        "void k(void *const *o, long begin, long end, void *scratch) {\n"
        "    (void)scratch;\n"
        "    for (long i = begin; i < end; i++) ((float *)o[2])[i] = ((float *)o[0])[i] + ((float *)o[1])[i];\n}\n"
    )
    name = target.replace("android", "musl")
    flags = ["-O2", "-fPIC", "-fno-sanitize=all", *protection_flags(parse_target(target))]
    run_zig("cc", ["-target", name, *flags, "-c", "k.c", "-o", "k.o"], "compiling", folder)
    return folder / "k.o"


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", TARGETS)
def test_exports_the_api_alone_and_needs_libc_alone(target: str, tmp_path: Path) -> None:
    kernel = tiny_kernel(tmp_path, target)
    constants = bytes(range(250)) * 20
    objects = build_model_objects(tiny(), constants, [kernel], CoreSet(()), {}, parse_target(target), tmp_path)
    out = tmp_path / "libtiny.so"
    link_shared(objects, out, parse_target(target))
    table, tags, sections = dynamic(out)
    defined = {s.name for s in table if s["st_shndx"] != "SHN_UNDEF" and s.name}
    wanted = {s.name for s in table if s["st_shndx"] == "SHN_UNDEF" and s["st_info"]["bind"] == "STB_GLOBAL"}
    needed = {tag.needed.split(".so")[0] for tag in tags if tag.entry.d_tag == "DT_NEEDED"}

    assert defined == {f"mavcg_model_tiny_{name}" for name in API} | {"mavcg_model_api"}
    guard = set() if "android" in target else STACK_GUARD
    assert wanted <= LIBC | guard and bool(wanted & guard) == bool(guard)
    assert "libc" in needed and needed <= {"libc", "libpthread", "ld-linux-aarch64"} | (
        {"libdl"} if "android" in target else set()
    )
    assert protection(out) == (["BTI", "PAC", "GCS"] if "aarch64" in target else ["IBT", "SHSTK"])
    flags, address, size = sections[".mavcg_constants"]
    assert size == 5000 and address % 4096 == 0 and flags == 2  # SHF_ALLOC: neither writable nor code


@pytest.mark.long
def test_the_same_input_builds_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", "off")  # both are compiled
    target = parse_target("aarch64-linux-gnu.2.17")
    kernel = tiny_kernel(tmp_path, target.zig_name)
    made = [
        [
            p.read_bytes()
            for p in build_model_objects(tiny(), bytes(5000), [kernel], CoreSet(()), {}, target, tmp_path / n)
        ]
        for n in ("one", "two")
    ]
    assert made[0] == made[1]


def test_a_unit_is_compiled_once_for_each_text_of_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    texts = list[str]()

    def compile_nothing(tool: str, words: Sequence[str], action: str) -> None:
        source = Path(words[words.index("-c") + 1])
        texts.append((source.parent / "mavcg_sizes.h").read_text())
        Path(words[-1]).write_bytes(f"{len(texts)}".encode())

    monkeypatch.setattr(unit_object, "run_zig", compile_nothing)
    target, out = parse_target("aarch64-linux-gnu.2.17"), tmp_path / "sizes.o"
    for sizes, number in (("a", b"1"), ("b", b"2"), ("a", b"1")):
        assert sizes_task(sizes, target, tmp_path).run().read_bytes() == number
    assert unit_object.unit_object("sizes", "mavcg_sizes.h", "a", target, ("-O1",), out).read_bytes() == b"3"
    assert texts == ["a", "b", "a"]


_SHORT = """
#include "sem.h"
int main(void) {
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const void *inputs[] = {x};
    void *outputs[] = {y};
    sem_options options = {1, 0, {0, 0}};
    sem_context *context;
    int status = sem_create(&options, &context);
    if (status == MAVCG_OK) status = sem_run(context, inputs, outputs);
    sem_destroy(context);
    return status || y[3] != 4;
}
"""
_BESIDE_LIBC = """
#define MAVCG_NO_SHORT_NAMES
#include "sem.h"
#include <semaphore.h>
int main(void) {
    sem_t semaphore;
    sem_context *context;
    int status = sem_init(&semaphore, 0, 1) || sem_wait(&semaphore) || sem_destroy(&semaphore);
    status |= mavcg_model_sem_create(NULL, &context);
    mavcg_model_sem_destroy(context);
    return status;
}
"""


@pytest.mark.long
def test_a_model_named_as_functions_of_libc_s(tmp_path: Path, run: Run) -> None:
    """A program's sem_destroy stays libc's; programs that call the model's by its short names compile as they are."""
    program = replace(tiny(), name="sem")
    kernel = tiny_kernel(tmp_path, host_target().zig_name)
    objects = build_model_objects(program, bytes(5000), [kernel], CoreSet(()), {}, host_target(), tmp_path)
    link_shared(objects, tmp_path / "libsem.so", host_target())
    write_companions(program, tmp_path / "libsem.so")

    assert all(name.startswith("mavcg_model_") for name in exported_symbols(tmp_path / "libsem.so"))
    for source in (_SHORT, _BESIDE_LIBC):
        (tmp_path / "use.c").write_text(source)
        flags = ["-target", host_target().zig_name, "-Wall", "-Wextra", "-Werror", "-I."]
        run_zig("cc", [*flags, "use.c", "-L.", "-lsem", "-lpthread", "-o", "use"], "compiling a program", tmp_path)
        run(tmp_path / "use", LD_LIBRARY_PATH=str(tmp_path))


def test_what_cannot_be_built(tmp_path: Path) -> None:
    linux, mac = parse_target("aarch64-linux-musl"), parse_target("aarch64-macos")
    kernel = tiny_kernel(tmp_path, linux.zig_name)
    with pytest.raises(MavcgError, match="model libraries are built for Linux and Android only"):
        build_model_objects(tiny(), bytes(5000), [kernel], CoreSet(()), {}, mac, tmp_path)
    with pytest.raises(MavcgError, match="model tiny: 3 bytes of constants, not 5000"):
        build_model_objects(tiny(), bytes(3), [kernel], CoreSet(()), {}, linux, tmp_path)
    with pytest.raises(MavcgError, match=r"kernel j_1: no object defines j_1\.generic"):
        build_model_objects(tiny("j_1"), bytes(5000), [kernel], CoreSet(()), {}, linux, tmp_path)


def test_weights_leave_nothing_in_a_cache(tmp_path: Path) -> None:
    """Other bytes of the same length make another object, though the assembler's text is the same."""
    target = parse_target("x86_64-linux-musl")
    objects = [
        constants_object([b], "c", target, tmp_path / f"{i}.o").read_bytes() for i, b in enumerate((b"one", b"two"))
    ]

    assert b"one" in objects[0] and b"two" in objects[1]


@pytest.fixture
def installed(build_library: Build, tmp_path: Path) -> Path:
    """A folder with two model libraries and all that belongs to them."""
    for name in ("exercise", "other_model"):
        for path in build_library(name).parent.iterdir():
            if path.suffix in (".so", ".h", ".pc", ".cmake"):
                shutil.copy(path, tmp_path)
    return tmp_path


def assert_program_works(run: Run, program: Path, folder: Path) -> None:
    assert run(program, LD_LIBRARY_PATH=str(folder)).stdout.splitlines() == [
        value_of_zeros(),
        f"{value_of_zeros()} 1",
        "done",
    ]


@pytest.mark.parametrize("compiler", ["cc", "zig cc", "c++"])
def test_a_program_linked_with_two_models(installed: Path, run: Run, compiler: str) -> None:
    command = zig_command("cc") if compiler == "zig cc" else [compiler]
    if not shutil.which(command[0]):
        pytest.skip(f"{compiler} is not installed")
    flags = ["-x", "c++"] if compiler == "c++" else ["-std=c99", "-Wpedantic"]
    arguments = [*flags, "-Wall", "-Wextra", "-Werror", f"-I{installed}", str(HERE / "use.c"), "-x", "none"]
    arguments += [f"-L{installed}", "-lexercise", "-lother_model", "-o", str(installed / "use")]
    subprocess.run([*command, *arguments], check=True)

    assert_program_works(run, installed / "use", installed)


def test_pkg_config(installed: Path, run: Run) -> None:
    if not shutil.which("pkg-config") or not shutil.which("cc"):
        pytest.skip("pkg-config or cc is not installed")
    environment = os.environ | {"PKG_CONFIG_PATH": str(installed)}
    command = ["pkg-config", "--cflags", "--libs", "exercise", "other_model"]
    flags = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", str(HERE / "use.c"), *flags, "-o", str(installed / "use")], check=True)
    subprocess.run(["pkg-config", "--validate", "exercise"], env=environment, check=True)

    assert_program_works(run, installed / "use", installed)


def test_cmake(installed: Path, run: Run, tmp_path: Path) -> None:
    if not shutil.which("cmake") or not shutil.which("make"):
        pytest.skip("cmake or make is not installed")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(use C)\n"
        "find_package(exercise REQUIRED)\nfind_package(other_model REQUIRED)\n"
        f"add_executable(use {HERE / 'use.c'})\ntarget_link_libraries(use mavcg::exercise mavcg::other_model)\n"
    )
    configure = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), f"-DCMAKE_PREFIX_PATH={installed}"]
    configure += [f"-Dexercise_DIR={installed}", f"-Dother_model_DIR={installed}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, stdout=subprocess.DEVNULL)

    assert_program_works(run, tmp_path / "build" / "use", tmp_path / "nowhere")  # CMake sets the run path by itself


def test_companions_of_odd_names(tmp_path: Path) -> None:
    program = Program("res-net/50 v1\n#", (), (), (), 0, 0, 0, 0)
    paths = write_companions(program, tmp_path / "my.model.so")

    assert [p.name for p in paths] == ["res_net_50_v1.h", "my.model.pc", "my.modelConfig.cmake", "res_net_50_v1.hpp"]
    assert "Libs: ${pcfiledir}/my.model.so\n" in paths[1].read_text()
    assert paths[1].read_text().count("\n") == 5
    with pytest.raises(MavcgError, match=r"nowhere/res_net_50_v1\.h: cannot be written"):
        write_companions(program, tmp_path / "nowhere" / "libx.so")


@pytest.mark.parametrize("name", ["net.h", "net.pc", "netConfig.cmake", "net.hpp"])
def test_a_file_of_somebody_else_s_is_not_replaced(name: str, tmp_path: Path) -> None:
    program = replace(tiny(), name="net")
    for _ in range(2):  # those that were written here are
        paths = write_companions(program, tmp_path / "libnet.so")
    written = {path.name: path.read_text() for path in paths}
    assert name in written
    (tmp_path / name).write_text(f"/* Mine. */\n{written[name]}")

    with pytest.raises(MavcgError, match=rf"{re.escape(name)}: exists and was not written by mavcg; .*move it"):
        write_companions(replace(program, name="net", steps=()), tmp_path / "libnet.so")
    assert (tmp_path / name).read_text().startswith("/* Mine. */\n")
    assert all((tmp_path / other).read_text() == text for other, text in written.items() if other != name)


def test_files_that_an_earlier_mavcg_wrote_are_replaced(tmp_path: Path) -> None:
    program = replace(tiny(), name="net")
    (tmp_path / "net.h").write_text("/* Model net. Made by mavcg.\n *\n * Inputs, in this order:\n */\n")
    (tmp_path / "net.pc").write_text("Name: net\nDescription: Model net, built by mavcg\nVersion: 0.1\n")
    (tmp_path / "netConfig.cmake").write_text("if(NOT TARGET mavcg::net)\n  add_library(mavcg::net SHARED IMPORTED)\n")

    header, pkg_config, cmake, _cpp = (path.read_text() for path in write_companions(program, tmp_path / "libnet.so"))
    assert "mavcg_model_net_run" in header and "Libs: " in pkg_config and "IMPORTED_SONAME" in cmake


def test_a_control_character_in_a_library_s_name(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"-o .*lib\\x1bn\.so: has control characters"):
        write_companions(tiny(), tmp_path / "lib\x1bn.so")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, mavcg; assert 'numpy' not in sys.modules; mavcg.load; assert 'numpy' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_program_in_the_manual(installed: Path, run: Run) -> None:
    """With this model's name in the place of the one there."""
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    manual = (HERE.parents[2] / "docs" / "model-runtime.md").read_text()
    text = manual.split("```c\n")[1].split("```")[0]
    (installed / "app.c").write_text(text.replace("resnet50", "exercise"))
    command = ["cc", "-Wall", "-Wextra", "-Werror", "app.c", "-I.", "-L.", "-lexercise", "-o", "app"]
    subprocess.run(command, cwd=installed, check=True)

    done = run(installed / "app", LD_LIBRARY_PATH=str(installed))
    assert done.stdout == f"y: 4000 bytes, starting with {value_of_zeros(0)}\n"
