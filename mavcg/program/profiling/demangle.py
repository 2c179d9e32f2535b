"""Converts C++ linkage names to readable names and back.

The demangler is `__cxa_demangle` of the C++ runtime (Itanium C++ ABI, section "Demangler API"), which pandas' C++
extension is linked to. libstdc++ does not demangle names of more than 1024 bytes; for these c++filt is run if it is
installed, else the linkage name is used.
"""

import ctypes
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

# Suffixes of parts and clones of a function: GCC's interprocedural passes, clone numbers, target_clones; LLVM's thin
# LTO and coroutines; mavcg's versions (a module's tag and a core name). A C or C++ name contains no dot otherwise;
# names of other languages may.
_SUFFIX = re.compile(
    r"_omp_fn|isra|part|constprop|cold|lto_priv|localalias|llvm|clone|resolver|default|resume|destroy|cleanup|generic"
    r"|arch_\w+|\d+|[a-z]+\d*-[a-z0-9-]+|znver\d+|[a-z]+(?:lake|well|rapids)|[0-9a-f]{8}"
)
_VERSION = re.compile(r"@@?[A-Za-z_][\w.]*$")
_MANGLED = re.compile(r"_{1,4}Z\S+")
_RUST_V0 = re.compile(r"_R[A-Z]\S+")
_SCOPE_GOES_ON = re.compile(r"(?: const| volatile| ?&&?|\[abi:\w+\])*(?: \[clone [^\]]*\])*::")
_CHAR_CLASS = re.compile(
    r"std::basic_(string|istream|ostream|iostream)<char,std::char_traits<char>(?:,std::allocator<char>)?>"
)
_LIMIT_BYTES = 1 << 16  # longer names are not demangled
_FILTERS = ("c++filt", "llvm-cxxfilt")


def base_symbol(symbol: str) -> str:
    """Return the linkage name of the function that a symbol is a part, clone or version of.

    `f.isra.0`, `f.cold`, `f.cortex-a55` -> `f`; `memcpy@@GLIBC_2.14` -> `memcpy`; `nn::f [clone .part.0]` -> `nn::f`.
    """
    if _MANGLED.fullmatch(symbol):
        return symbol.partition(".")[0].partition("@")[0]  # neither can occur inside a mangled name
    symbol = _without_clone_notes(symbol)
    if not symbol.endswith("@plt"):
        symbol = _VERSION.sub("", symbol)
    base, _, suffix = symbol.rpartition(".")
    while base and _SUFFIX.fullmatch(suffix):
        symbol = base
        base, _, suffix = symbol.rpartition(".")
    return symbol


def _without_clone_notes(name: str) -> str:
    """Remove the suffixes that demanglers write: `nn::f [clone .part.0] [clone .cold]` -> `nn::f`."""
    while name.endswith("]"):
        base, note, _ = name.rpartition("[clone ")
        if not note:
            break
        name = base.rstrip()
    return name


@cache
def demangle(symbol: str) -> str:
    """Return the C++ name of a linkage name, with parameters; the symbol itself if it is not a mangled name."""
    name = base_symbol(symbol)
    if not (_MANGLED.fullmatch(name) or _RUST_V0.fullmatch(name)) or len(name) > _LIMIT_BYTES or "\0" in name:
        return symbol
    mangled = name if name.startswith("_R") else "_" + name.lstrip("_")  # Mach-O names have one more underscore
    return _by_runtime(mangled) or _by_filter(mangled) or symbol


def _by_runtime(mangled: str) -> str | None:
    demangler = _cxa_demangle()
    if demangler is None:
        return None
    function, free = demangler
    status = ctypes.c_int()
    text = function(mangled.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if not text:
        return None
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        free(text)


@cache
def _cxa_demangle() -> tuple[Callable[..., int | None], Callable[[int], None]] | None:
    """Return `__cxa_demangle` and the `free` for its result, or None on a machine without a C++ runtime."""
    # Through the extension, the symbol is found in the runtime library it is linked to, whatever its name.
    for library in (*_extensions(), "libstdc++.so.6", "libc++.1.dylib"):
        try:
            loaded = ctypes.CDLL(library)
            function, free = loaded.__cxa_demangle, loaded.free
        except (OSError, AttributeError):
            continue
        function.restype, free.restype = ctypes.c_void_p, None
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        free.argtypes = [ctypes.c_void_p]
        return function, free
    return None


def _extensions() -> list[str]:
    """Return possible paths of pandas' C++ extension, without the slow import of pandas."""
    package = importlib.util.find_spec("pandas")
    if package is None or package.origin is None:
        return []
    folder = Path(package.origin).parent / "_libs" / "window"
    return [str(folder / f"aggregations{suffix}") for suffix in importlib.machinery.EXTENSION_SUFFIXES]


def _by_filter(mangled: str) -> str | None:
    """Demangle by c++filt, which has no length limit and knows Rust's names too; None if that fails."""
    for tool in _FILTERS:
        path = shutil.which(tool)
        if path is None:
            continue
        try:
            done = subprocess.run([path], input=mangled + "\n", capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired, UnicodeError):
            continue
        name = done.stdout.strip()
        if done.returncode == 0 and name and name != mangled:
            return name
    return None


def without_parameters(name: str) -> str:
    """Return a demangled name as perf prints it, without return type, parameters, and qualifiers after them.

    `void nn::f<int>(int*) const` -> `nn::f<int>`; `a::operator()(int)` -> `a::operator()`. A name in a function's scope
    keeps that function's parameters: `f(int)::{lambda()#1}::operator()() const` loses only the last parameters.
    """
    name = _without_clone_notes(name)
    at = start = 0
    while at < len(name):
        operator = _operator_at(name, at)
        if operator:
            at += operator
        elif name.startswith(("(anonymous namespace)", "decltype (", " <"), at):
            # A scope, a computed return type, or the template arguments of an operator: no parameters yet.
            at = _closing(name, name.index(" <" if name[at] == " " else "(", at) + (name[at] == " "))
        elif name[at] in "<([{":
            close = _closing(name, at)
            if name[at] == "(" and _SCOPE_GOES_ON.match(name, close) is None:
                return name[start:at].strip()
            inside = _SCOPE_GOES_ON.match(name, close) if name[at] == "(" else None
            at = inside.end() if inside is not None else close
        else:
            start = at + 1 if name[at] == " " else start
            at += 1
    return name[start:].strip()


def _closing(name: str, at: int) -> int:
    """Return the offset after the bracket that closes the one at this offset, or the name's length."""
    depth = 0
    while at < len(name):
        operator = _operator_at(name, at)
        if operator:
            at += operator
            continue
        depth += (name[at] in "<([{") - (name[at] in ">)]}" and not name.startswith("->", at - 1))
        at += 1
        if depth == 0:
            break
    return at


def _operator_at(name: str, at: int) -> int:
    """Return the length of the operator name at this offset, a conversion's target type included; 0 if none."""
    if not name.startswith("operator", at) or (at and (name[at - 1].isalnum() or name[at - 1] == "_")):
        return 0
    after = name[at + len("operator") :]
    symbol = re.match(r"(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>=!+\-*/%&|^~]=?|&&|\|\||\+\+|--|,)", after)
    if symbol is not None:
        double = re.match(r"(?:&&|\|\||\+\+|--)", after)
        return len("operator") + (double or symbol).end()
    word = re.match(r" (?:new|delete)(?:\[\])?| [^(<]*", after)
    return len("operator") + word.end() if word is not None else 0


def linkage_names(printed: Iterable[str], linkage: Iterable[str]) -> Mapping[str, str]:
    """Find the linkage names of functions whose names a tool printed demangled.

    Args:
        printed: function names, demangled with or without parameters, or linkage names.
        linkage: symbols of a binary or of a module.
    Returns: printed name -> linkage name without compiler suffixes. Ambiguous names, such as overloads printed without
    parameters, are left out.
    """
    bases = dict.fromkeys(base_symbol(symbol) for symbol in linkage)
    spellings: dict[str, set[str]] = {}
    for base in bases:
        full = demangle(base)
        for spelling in {base, full, without_parameters(full)} if full != base else {base}:
            spellings.setdefault(_normal(spelling), set()).add(base)
    by_printed_name = {}
    for name in printed:
        base = base_symbol(name)
        candidates = {base} if base in bases else _one_constructor(spellings.get(_normal(base), set()))
        if len(candidates) == 1:
            by_printed_name[name] = next(iter(candidates))
    return by_printed_name


def _one_constructor(names: set[str]) -> set[str]:
    """Reduce the complete (C1) and base (C2) variants of a constructor, which have one demangled name, to C1."""
    if len(names) < 2:
        return names
    merged = {re.sub(r"([CD])2(?=[EI])", r"\g<1>1", name) for name in names}
    return merged & names if len(merged) == 1 else names


def _normal(name: str) -> str:
    """Normalise spellings that differ between demanglers: spaces in template arguments, std::string."""
    name = re.sub(r"\s+(?=[>,*&)])|(?<=[,<(])\s+", "", name)
    return _CHAR_CLASS.sub(r"std::\1", name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::"))
