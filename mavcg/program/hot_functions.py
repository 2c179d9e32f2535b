"""Matches the names of hot functions, from the user or a profile, to linkage names that an input or output defines."""

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.objects.elf import function_symbols
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.profiling.demangle import base_symbol, demangle, without_parameters

_ALIAS = re.compile(r'^@("[^"]*"|[-a-zA-Z$._0-9]+) = .*\balias [^\n]*, ptr @("[^"]*"|[-a-zA-Z$._0-9]+)', re.MULTILINE)
_DEFINED = re.compile(r'^define [^@]*@("[^"]*"|[-a-zA-Z$._0-9]+)\(', re.MULTILINE)


def defined_functions(text: str) -> list[str]:
    """Return the linkage names of the functions that IR text defines, without available_externally copies."""
    names = []
    for match in _DEFINED.finditer(text):
        if not match[0].startswith("define available_externally"):
            names.append(match[1].strip('"'))
    return names


def aliases(text: str) -> dict[str, str]:
    """Return alias -> target for the aliases of functions in IR text.

    C++ constructors have two names, and Zig exports each function by an alias.
    """
    return {match[1].strip('"'): match[2].strip('"') for match in _ALIAS.finditer(text)}


def match_hot(
    hot: Sequence[HotSymbol], texts: Sequence[str], assembled: Sequence[str] = ()
) -> tuple[list[HotSymbol], list[HotSymbol]]:
    """Return (matched functions with their linkage names, functions that the input does not define).

    A name matches as a linkage name; else as a demangled name with or without parameters, as its last part without
    template arguments (gebp_kernel), or as a glob pattern of any of these. Several functions may match.
    A C++ linkage name without a definition matches every function of the same qualified name, whatever its template
    arguments and parameters. For another target, a function may have another linkage name: if a library chooses block
    sizes by target, or if a type belongs to another standard library.

    Args:
        texts: IR texts of the modules.
        assembled: names of the functions in assembly files.
    Raises: MavcgError for a function that the user named and no module defines.
    """
    names = list(dict.fromkeys(name for text in texts for name in defined_functions(text)))
    names += [name for name in assembled if name not in names]
    behind = {alias: target for text in texts for alias, target in aliases(text).items() if target in names}
    hot = [replace(symbol, given_name=behind.get(symbol.given_name, symbol.given_name)) for symbol in hot]
    by_symbol = {symbol: match_names([symbol], names) for symbol in hot}
    exact = {match.name for matches in by_symbol.values() for match in matches}
    for symbol in [symbol for symbol in hot if not by_symbol[symbol]]:
        by_symbol[symbol] = [match for match in _same_template(symbol, names) if match.name not in exact]
    missing = [symbol for symbol in hot if not by_symbol[symbol]]
    for symbol in missing:
        if symbol.named_by_user:
            raise MavcgError(_no_such_function(symbol.given_name, names))
    first: dict[str, HotSymbol] = {}
    for symbol in hot:
        for match in by_symbol[symbol]:
            first.setdefault(match.name, match)
    return list(first.values()), missing


def _same_template(symbol: HotSymbol, names: Sequence[str]) -> list[HotSymbol]:
    """Return the functions with the qualified name of the symbol's C++ linkage name."""
    qualified_name = _qualified_name(symbol.given_name)
    alike = [name for name in names if _qualified_name(name) == qualified_name] if qualified_name else []
    return [replace(symbol, name=name, inexact=True, why=f"{symbol.why}, by its name") for name in alike]


@cache
def _qualified_name(name: str) -> str:
    """Return the demangled name without template arguments; "" for a name that is not a C++ linkage name.

    For example Eigen::internal::gebp_kernel::operator() for any instantiation.
    """
    whole = demangle(name)
    return _without_templates(without_parameters(whole)) if whole != name else ""


def inexact_notes(hot: Sequence[HotSymbol]) -> list[str]:
    """Return notes about functions that were matched by their qualified names only."""
    by_given_name: dict[str, list[str]] = {}
    for symbol in hot:
        if symbol.inexact:
            by_given_name.setdefault(symbol.given_name, []).append(symbol.name)
    return [
        f"{demangle(given_name)} is defined by no input; matched by its name without template arguments and "
        f"parameters:  {'; '.join(map(demangle, names))}"
        for given_name, names in by_given_name.items()
    ]


def match_names(hot: Sequence[HotSymbol], names: Sequence[str]) -> list[HotSymbol]:
    """Return the linkage names that match a hot function, in the order of `hot`."""
    known = set(names)
    by_name: dict[str, HotSymbol] = {}
    for symbol in hot:
        for name in [symbol.given_name] if symbol.given_name in known else _by_readable_name(symbol.given_name, names):
            by_name.setdefault(name, replace(symbol, name=name))
    return list(by_name.values())


def hot_in_object(binary: Path, hot: Sequence[HotSymbol]) -> list[HotSymbol]:
    """Return the hot functions that an object or program defines."""
    return match_names(hot, _base_symbols(name for name, _ in function_symbols(binary)))


def hot_in_bitcode(bitcode: Path, hot: Sequence[HotSymbol]) -> list[HotSymbol]:
    """Return the hot functions that a file of LLVM bitcode defines."""
    from mavcg.passes.ir.module_text import parse_module
    from mavcg.program.sources.load_ir import load_ir

    return match_names(hot, _base_symbols(parse_module(load_ir(bitcode).text).definitions()))


def hot_in_assembly(assembly: Path, hot: Sequence[HotSymbol]) -> list[HotSymbol]:
    """Return the hot functions that a file of assembly defines."""
    from mavcg.passes.asm.transforms.remove_definitions import defined_symbols

    text = assembly.read_text(encoding="utf-8", errors="surrogateescape")
    return match_names(
        hot, _base_symbols(name for name, symbol in defined_symbols(text).items() if symbol.kind == "function")
    )


def _base_symbols(names: Iterable[str]) -> list[str]:
    """Return the names without suffixes of clones, each once."""
    return list(dict.fromkeys(map(base_symbol, names)))


def _no_such_function(given_name: str, names: Sequence[str]) -> str:
    spelled = sorted({form for name in names for form in name_forms(name) if len(form) < 80})
    near = difflib.get_close_matches(given_name, spelled, 3)
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "give its linkage name (as `nm` prints it), or add its source"
    )
    return f"--hot {given_name}: no input defines a function of that name; {hint}"


def _by_readable_name(given_name: str, names: Sequence[str]) -> list[str]:
    forms = {name: name_forms(name) for name in names}
    exact = [name for name, spelled in forms.items() if given_name in spelled]
    if exact or not re.search(r"[*?\[]", given_name):
        return exact
    return [name for name, spelled in forms.items() if any(fnmatch.fnmatchcase(s, given_name) for s in spelled)]


@cache  # every hot function is searched among all names
def name_forms(name: str) -> frozenset[str]:
    """Return the forms in which users write a function's name."""
    whole = demangle(name)
    bare = without_parameters(whole)
    plain = _without_templates(bare)
    parts = plain.split("::")
    # A call operator is named by its class: gebp_kernel, for gebp_kernel<...>::operator()(...).
    owner = {"::".join(parts[:-1]), parts[-2]} if len(parts) > 1 and parts[-1] == "operator()" else set()
    return frozenset({name, whole, bare, plain, parts[-1]} | owner)


def _without_templates(name: str) -> str:
    """Remove template arguments, foo<int>::bar<2> -> foo::bar, but not the signs of operators such as operator<<."""
    depth = 0
    outside = []
    protected = re.sub(r"operator(<<|>>|<=>|<=|>=|<|>|->)", lambda m: "operator" + "\0" * len(m[1]), name)
    for plain, char in zip(protected, name, strict=True):
        if plain == "<":
            depth += 1
        elif plain == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            outside.append(char)
    return "".join(outside).strip()
