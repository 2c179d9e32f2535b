"""LLVM IR from the user: parsed by LLVM in a process of its own, then taken apart and cloned as a build does."""

import os

from fuzz.mutation.lines import line_mutator
from fuzz.targets import call_target

PACKAGES = ("mavcg.passes.ir", "mavcg.program.sources.load_ir")
_LABEL = "cortex-a55"
mutate = line_mutator(
    (
        "internal linkonce_odr weak hidden comdat musttail varargs ... float <4 x float> ptr void i64 "
        'fast contract alwaysinline section "x" %0 @0 !0 undef blockaddress indirectbr thread_local '
        "sret(i64) byval(i64) align personality alias ifunc x86_intrcc swiftcc"
    ),
    "latin-1",
)


def run(data: bytes) -> None:
    """Name the file's kind; take apart what LLVM reads, and make a version of each function that may have one."""
    from mavcg.program.sources.load_ir import file_kind

    if file_kind(data) or data.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b")):
        return
    printed = _printed_by_llvm(data.decode("latin-1"))
    if printed is not None:
        call_target(lambda: _versions(printed))


def _versions(text: str) -> None:
    from mavcg.passes.ir.arithmetic import explicit_fmuladd, fuse_contracted, without_fast_math
    from mavcg.passes.ir.clone import make_version
    from mavcg.passes.ir.hot_module import HotModule
    from mavcg.passes.ir.module_text import parse_module
    from mavcg.passes.ir.refuse import why_not

    module = parse_module(text)
    parse_module(str(module))
    names = [name for name in module.definitions() if why_not(module, name, "aarch64") is None]
    hot = HotModule(module, frozenset(names), "0123")
    for name in names:
        version = str(make_version(hot, name, _LABEL).module)
        assert _printed_by_llvm(version) is not None, f"LLVM refuses the version of {name}:\n{version}"
    for change in (without_fast_math, lambda text: explicit_fmuladd(text, ("float",))):
        assert _printed_by_llvm(change(text)) is not None, "LLVM refuses what a pass made"
    fuse_contracted(text, ("float",))


def _printed_by_llvm(text: str) -> str | None:
    """Return the module as LLVM prints it; None where LLVM refuses it, or ends the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            import llvmlite.binding as llvm

            os.close(reader)
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 2)  # LLVM's last words
            module = llvm.parse_assembly(text)
            module.verify()
            printed = str(module)
            llvm.parse_assembly(printed)
            with open(writer, "wb") as out:
                out.write(printed.encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as sent:
        printed = sent.read().decode("utf-8", "replace")
    return printed if os.waitpid(child, 0)[1] == 0 else None
