"""Generate runtime/declared.py, by which Python calls the runtime's C, from the C headers that declare it.

`python -m mavcg.runtime.declare` writes it after a change of a header; a test compares them. No C is parsed when a
library is loaded, because cffi's out-of-line ABI mode stores its parser's result as a Python module.
"""

import io
import re
from pathlib import Path

CSRC = Path(__file__).parent / "csrc"
HEADERS = ("engine_api.h", "sizes_api.h", "application_api.h", "kernel_api.h", "detect_api.h")
DECLARED = Path(__file__).parent / "declared.py"

_HEAD = '''\
"""Declarations of the runtime's C for cffi, made of csrc/{headers} by mavcg.runtime.declare: change those."""

# ruff: noqa
# fmt: off
# mypy: ignore-errors
'''
_FOR_CPP = re.compile(r"^#ifdef __cplusplus\n.*?^#endif\n", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"#define \w+ \d+")


def declarations(header: str) -> str:
    """Return a header without its C++ parts and without directives other than numbers, as cffi's parser accepts it."""
    lines = _FOR_CPP.sub("", header).splitlines()
    return "\n".join(line for line in lines if not line.startswith("#") or _NUMBER.fullmatch(line)) + "\n"


def declared_text() -> str:
    """Return the text of the module for the present headers."""
    from cffi import FFI

    ffi = FFI()
    for name in HEADERS:
        ffi.cdef(declarations((CSRC / name).read_text(encoding="utf-8")))
    ffi.set_source("mavcg.runtime.declared", None, compiler_verbose=0)
    made = io.StringIO()
    ffi.emit_python_code(made)
    return _HEAD.format(headers=" and csrc/".join(HEADERS)) + made.getvalue()


if __name__ == "__main__":
    DECLARED.write_text(declared_text(), encoding="utf-8")
