"""Decides which functions of a profile can have a version per core, and gives the reason for the others."""

import re
from pathlib import PurePosixPath

from mavcg.program.profiling.sample_table import UNKNOWN

_KERNEL = re.compile(r"\[(?:kernel|guest)\b[^\]]*\].*|.*\.ko(?:\.[a-z0-9]+)?")
_BRACKETED = re.compile(r"\[[^\]]*\].*|//anon|.*/perf-\d+\.map|.*\(deleted\)|inlined")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{16}|[^\s]*\[\+(?:0x)?[0-9a-f]+\]")
_STUB = re.compile(r".*(?:@plt(?:\.\w+)?|\.plt(?:\.\w+)?|\[plt\])")
_START_UP = frozenset(
    (
        *"_start _init _fini __libc_start_main __libc_csu_init __libc_csu_fini __libc_init frame_dummy".split(),
        *"register_tm_clones deregister_tm_clones __do_global_dtors_aux".split(),
        "(below main)",  # valgrind's name for what calls main
    )
)
# Language runtimes, recognised by name because perf report prints names without folders.
_RUNTIME_LIBRARY = re.compile(
    r"(?:ld-linux[\w.-]*|ld-musl[\w.-]*|ld-?[\d.]*|linker64?|linux-vdso|libc|libm|libmvec|libdl|librt|libpthread|libutil"
    r"|libresolv|libstdc\+\+|libc\+\+|libc\+\+abi|libc\+\+_shared|libgcc_s|libunwind|libasan|libtsan|libubsan|libgomp|libomp"
    r"|libgfortran|libquadmath|libatomic|libvdso|vgpreload[\w.-]*)(?:-[\d.]+)?(?:\.so[\d.]*|\.dylib)?"
)
_SYSTEM_FOLDERS = ("/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/libexec/valgrind/")
_ANDROID_FOLDERS = ("/system/", "/system_ext/", "/apex/", "/vendor/", "/product/", "/odm/")


def is_kernel(object_: str) -> bool:
    """True if an object is the kernel, a kernel module or a guest's kernel."""
    return _KERNEL.fullmatch(object_) is not None


def is_nameless(symbol: str) -> bool:
    """True if a symbol is an address or empty instead of a function's name."""
    return symbol in ("", UNKNOWN, "unknown", "???") or _ADDRESS.fullmatch(symbol) is not None


def is_system(object_: str) -> bool:
    """True if an object belongs to the system or a language runtime, not to the program."""
    runtime = _RUNTIME_LIBRARY.fullmatch(PurePosixPath(object_).name) is not None
    return runtime or object_.startswith(_SYSTEM_FOLDERS) or object_.startswith(_ANDROID_FOLDERS)


def why_not_clonable(symbol: str, object_: str) -> str:
    """Return the reason why this function cannot have a version per core; "" if it can.

    Args:
        symbol: its name in the ranking.
        object_: path or name of its file; "" if not recorded.
    """
    if is_kernel(object_):
        return "kernel code"
    if is_system(object_):
        return f"system library {PurePosixPath(object_).name}: not built from the program's sources"
    if is_nameless(symbol):
        return "no function name: build it with symbols (not stripped)"
    if _STUB.fullmatch(symbol):
        return "a linker's stub, not a function of the program"
    if symbol in _START_UP:
        return "start-up code of the C library"
    if object_ == UNKNOWN or _BRACKETED.fullmatch(object_):
        return f"not in a file: {object_}"
    return ""
