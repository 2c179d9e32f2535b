"""The runtime's C files: each compiles alone, and the units that are made of them hold each file once."""

import re
from pathlib import Path

import pytest

from mavcg.runtime.amalgamation import SOURCES, UNITS, unit_text
from mavcg.runtime.sample_tables import FLAGS, SAMPLE, sample_tables
from mavcg.toolchain.zig import run_zig

FILES = sorted(SOURCES.glob("*.c"))


@pytest.mark.long
@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_every_file_compiles_alone(target: str, tmp_path: Path) -> None:
    """Without a warning, with its own #include lines and a sample of the generated headers."""
    flags = [*FLAGS, "-Werror", f"-I{SAMPLE}", "-fno-sanitize=all", "-O0", "-c"]
    # ziglang links the objects: both define core_set, or mavcg_model_api.
    alone = [SOURCES / "detect.c", SOURCES / "engine_sizes.c"]
    for files in ([path for path in FILES if path not in alone], *([path] for path in alone)):
        arguments = ["-target", target, *flags, *map(str, files), "-o", "all.o"]
        run_zig("cc", arguments, "compiling each file alone", tmp_path)
        assert (tmp_path / "all.o").stat().st_size > 0
        (tmp_path / "all.o").unlink()


@pytest.mark.long
def test_the_files_of_macos_compile_alone(tmp_path: Path) -> None:
    others = ("engine", "application", "pipeline", "detect", "blas", "tflite")
    files = [str(path) for path in FILES if not path.name.startswith(others)]
    flags = [*FLAGS, "-Werror", f"-I{SAMPLE}", "-fno-sanitize=all", "-O0", "-c"]
    run_zig("cc", ["-target", "aarch64-macos", *flags, *files, "-o", "all.o"], "compiling each file alone", tmp_path)

    assert (tmp_path / "all.o").stat().st_size > 0


def test_editors_and_tests_have_the_same_flags() -> None:
    """clangd and clang-tidy read compile_flags.txt."""
    assert (SOURCES / "compile_flags.txt").read_text().split() == [*FLAGS, "-I.", "-Isample"]


def test_the_sample_is_what_would_be_generated() -> None:
    """After a change of the generated tables: python -m mavcg.runtime.sample_tables"""
    assert {path.name: path.read_text() for path in SAMPLE.iterdir()} == sample_tables()


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_has_each_file_once(unit: str) -> None:
    text = unit_text(unit)
    joined = re.findall(r'^#line 1 "(.*)"$', text, re.MULTILINE)
    included = re.findall(r'^ *# *include "(.*)"', text, re.MULTILINE)

    assert len(joined) == len(set(joined)) and len(included) == len(set(included))
    assert set(included) <= set(sample_tables())


def test_no_file_silences_warnings_about_unused_things() -> None:
    texts = [path.read_text() for path in SOURCES.rglob("*.[ch]")]

    assert not [text for text in texts if re.search(r"\bunused\b|diagnostic ignored|-Wno-", text)]


def test_every_function_of_a_file_is_declared_or_static() -> None:
    """A definition that begins with MAVCG_PRIVATE has its declaration in a header."""
    declared = "\n".join(path.read_text() for path in SOURCES.glob("*.h"))
    for path in FILES:
        for name in re.findall(r"^(?:MAVCG_RARE )?MAVCG_PRIVATE [^=;]*?(\w+)\(", path.read_text(), re.MULTILINE):
            assert re.search(rf"^MAVCG_PRIVATE [^;]*\b{name}\(", declared, re.MULTILINE), f"{path.name}: {name}"
