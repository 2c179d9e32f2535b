"""One text declares the runtime to C and to Python: Python holds what a parser and a compiler make of it now."""

import subprocess
import sys
from pathlib import Path

import pytest

from mavcg.runtime import declare
from mavcg.runtime.declared import ffi
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

STRUCTS = ("mavcg_tensor", "mavcg_step", "mavcg_options", "mavcg_model_table")


def test_what_python_declares_is_what_the_headers_say() -> None:
    """After a change of a header: python -m mavcg.runtime.declare"""
    assert declare.DECLARED.read_text() == declare.declared_text()


def test_a_compiler_lays_the_structures_out_alike(tmp_path: Path) -> None:
    checks = [f'#include "{name}"' for name in declare.HEADERS] + ["#include <stddef.h>"]
    for name in STRUCTS:
        kind = ffi.typeof(name)
        checks.append(f'_Static_assert(sizeof({name}) == {ffi.sizeof(kind)}, "size");')
        for field, at in kind.fields:
            checks.append(f'_Static_assert(offsetof({name}, {field}) == {at.offset}, "{field}");')
            checks.append(f'_Static_assert(sizeof((({name} *)0)->{field}) == {ffi.sizeof(at.type)}, "{field}");')
    for kind in ("enum mavcg_type", "enum mavcg_status", "enum mavcg_flags"):
        for code, name in ffi.typeof(kind).elements.items():
            checks.append(f'_Static_assert({name} == {code}, "{name}");')
    assert len(checks) > 90
    (tmp_path / "checks.c").write_text("\n".join([*checks, ""]))

    flags = ["-target", host_target().zig_name, "-Wall", "-Wextra", "-Werror", f"-I{declare.CSRC}"]
    run_zig("cc", [*flags, "-c", "checks.c", "-o", "checks.o"], "checking the layout", tmp_path)


def test_declarations_are_the_header_without_its_directives() -> None:
    header = (
        '#ifndef GUARD\n#define GUARD 3\n#include <stdint.h>\n#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n'
        "#ifdef __cplusplus\n}\n#endif\n#endif\n"
    )
    assert declare.declarations(header) == "#define GUARD 3\nint f(void);\n"


@pytest.mark.parametrize("module", ["mavcg.runtime.loading", "mavcg.runtime.binding"])
def test_nobody_who_loads_a_library_parses_c(module: str) -> None:
    code = f"import sys, {module}; assert not {{'cffi', 'pycparser', 'cffi.api'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
