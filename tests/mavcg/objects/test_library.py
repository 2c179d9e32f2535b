"""Names that a linker could take for something else: of the library, of its folder, of symbols."""

from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.errors import MavcgError
from mavcg.objects.elf import exported_symbols
from mavcg.objects.library import link_shared
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

ARM = parse_target("aarch64-linux-gnu.2.17")


def _object(folder: Path, source: str, tool: str = "cc", target: Target = ARM) -> Path:
    suffix = ".cc" if tool == "c++" else ".s" if source.startswith("\t") else ".c"
    (folder / f"x{suffix}").write_text(source)
    flags = ["-target", target.zig_name, *PLAIN_CODE_FLAGS, "-w", "-fPIC", "-c"]
    run_zig(tool, [*flags, f"x{suffix}", "-o", "x.o"], "compiling", folder)
    return folder / "x.o"


@pytest.mark.parametrize("tool", ["cc", "c++"])
def test_a_comma_ends_no_option(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "a,--no-such-option"
    folder.mkdir()
    source = "int f(void) { return 1; }\n" if tool == "cc" else 'extern "C" int *f() { return new int(1); }\n'
    out = folder / "lib,--no-such-option.so"
    # For this machine, whose C++ library set-up has made: that of another takes two minutes of CPU time.
    target = ARM if tool == "cc" else host_target()
    link_shared([_object(tmp_path, source, tool, target)], out, target)

    assert "f" in exported_symbols(out)
    with out.open("rb") as file:
        dynamic: Any = ELFFile(file).get_section_by_name(".dynamic")
        assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == [out.name]


def test_a_symbol_that_no_linker_script_can_name(tmp_path: Path) -> None:
    source = '\t.globl "a\\"b"\n"a\\"b":\n\tbl _Znwm\n\tret\n'
    with pytest.raises(MavcgError, match="no linker script can name this symbol"):
        link_shared([_object(tmp_path, source)], tmp_path / "libx.so", ARM)
