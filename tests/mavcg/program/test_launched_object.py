"""`mavcg launch` keeps the target of a command, and the flags that the code around versions needs."""

from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.program.launched_object import _CODE_FLAGS, _machine_options, target_of_unit
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.toolchain.target import host_target


@pytest.mark.parametrize(
    ("flag", "kept"),
    [
        ("-fPIC", True),
        ("-fpie", True),
        ("-fno-pie", True),
        ("-ffunction-sections", True),
        ("-fno-plt", True),
        ("-mcmodel=large", True),
        ("-ftls-model=initial-exec", True),
        ("-mno-red-zone", True),
        ("-O2", False),
        ("-fpicx", False),
        ("-ffast-math", False),
        ("-mcmodel", False),
        ("-funroll-loops", False),
    ],
)
def test_flags_that_the_code_around_versions_needs(flag: str, kept: bool) -> None:
    assert bool(_CODE_FLAGS.match(flag)) == kept


def test_musl_android_and_other_machines_are_told_apart(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = CompileUnit(here / "x.c", here, ("cc", "-c", "x.c"), here / "x.o", "c")
    host: Any = host_target()
    for machine, name in (
        ("aarch64-linux-android21", "aarch64-linux-android"),
        ("aarch64-linux-musl", "aarch64-linux-musl"),
        ("arm64-apple-darwin23", "aarch64-macos"),
        (f"{host.arch}-linux-gnu", host.zig_name),
    ):
        monkeypatch.setattr("mavcg.program.launched_object.machine_of", lambda *_, m=machine: m)
        assert target_of_unit(unit).zig_name == name
    monkeypatch.setattr("mavcg.program.launched_object.machine_of", lambda *_: "riscv64-linux-gnu")
    with pytest.raises(MavcgError, match="cc: compiles for riscv64-linux-gnu; versions are made for AArch64 and x86"):
        target_of_unit(unit)


def test_a_compiler_is_asked_for_its_machine_once_for_all_files() -> None:
    said = "-O2 -Wall -DX=1 -I inc -include a.h -MD -MF x.d -std=c11 -fPIC -g --target=aarch64-linux -m32 -c x.c -o x.o"
    assert _machine_options(said.split()) == ("--target=aarch64-linux", "-m32")
    assert _machine_options(["-target", "x86_64-linux", "-arch", "arm64", "--sysroot", "/s"]) == (
        *("-target", "x86_64-linux", "-arch", "arm64", "--sysroot", "/s"),
    )
