"""Makes runtime/declared.py, by which Python calls the runtime's C, of the C headers that declare it.

`python -m mavcg.runtime.declare` writes it anew after a change of a header; a test compares them. So nobody who loads a
library parses C: cffi's out-of-line ABI mode keeps what its parser found as a Python module.
"""

import io
import re
from pathlib import Path

CSRC = Path(__file__).parent / "csrc"
HEADERS = ("engine_api.h", "kernel_api.h", "detect_api.h")
DECLARED = Path(__file__).parent / "declared.py"

_HEAD = '''\
"""The runtime's C as Python sees it, by cffi. Made of csrc/{headers} by mavcg.runtime.declare: change those."""

# ruff: noqa
# fmt: off
# mypy: ignore-errors
'''
_FOR_CPP = re.compile(r"^#ifdef __cplusplus\n.*?^#endif\n", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"#define \w+ \d+")


def declarations(header: str) -> str:
    """A header as cffi's parser takes it: without what is for C++ and without directives, but for numbers."""
    lines = _FOR_CPP.sub("", header).splitlines()
    return "\n".join(line for line in lines if not line.startswith("#") or _NUMBER.fullmatch(line)) + "\n"


def declared_text() -> str:
    """The module that the headers give."""
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
