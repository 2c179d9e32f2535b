"""From what a user or a profile calls hot to the linkage names that the input defines."""

import difflib
import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from mavcg.errors import MavcgError
from mavcg.profiling.demangle import demangle, without_parameters

_ALIAS = re.compile(r'^@("[^"]*"|[-a-zA-Z$._0-9]+) = .*\balias [^\n]*, ptr @("[^"]*"|[-a-zA-Z$._0-9]+)', re.MULTILINE)
_DEFINED = re.compile(r'^define [^@]*@("[^"]*"|[-a-zA-Z$._0-9]+)\(', re.MULTILINE)


@dataclass(frozen=True)
class HotSymbol:
    """A function to be versioned.

    asked: as the user or the profile names it; name: its linkage name. share: of the run time, 0..1 (1 where nobody
    measured). named_by_user: whether it is an error when no input defines it. why: the reason it is hot, in words.
    object: the program or library it ran in, "" where nobody recorded it. inexact: whether `name` is the same template
    with other arguments.
    """

    asked: str
    name: str = ""
    share: float = 1.0
    named_by_user: bool = True
    why: str = "named"
    object: str = ""
    inexact: bool = False


def defined_functions(text: str) -> list[str]:
    """Linkage names of the functions that IR text defines, copies for inlining only left out."""
    found = []
    for match in _DEFINED.finditer(text):
        if not match[0].startswith("define available_externally"):
            found.append(match[1].strip('"'))
    return found


def aliases(text: str) -> dict[str, str]:
    """Other names of functions in IR text: alias -> what it stands for. A C++ constructor has two names, and Zig
    exports every function by an alias."""
    return {match[1].strip('"'): match[2].strip('"') for match in _ALIAS.finditer(text)}


def match_hot(
    hot: Sequence[HotSymbol], texts: Sequence[str], assembled: Sequence[str] = ()
) -> tuple[list[HotSymbol], list[HotSymbol]]:
    """(found, not found): each asked function with the linkage names that the modules define, and assembly files
    (`assembled`).

    A name matches as a linkage name; else as a whole demangled name, as one without its parameters, as the last part of
    it without template arguments (gebp_kernel), or as a glob pattern of any of these. Several functions may match.
    A C++ linkage name that nothing defines matches every function of the same qualified name, whatever its template
    arguments and parameters: a library that picks its block sizes by target, and a std:: type of another standard
    library, give one function another linkage name on the board than on the machine that was profiled.
    Raises: MavcgError for a function that the user named and no module defines.
    """
    names = list(dict.fromkeys(name for text in texts for name in defined_functions(text)))
    names += [name for name in assembled if name not in names]
    behind = {alias: target for text in texts for alias, target in aliases(text).items() if target in names}
    hot = [replace(symbol, asked=behind.get(symbol.asked, symbol.asked)) for symbol in hot]
    by_symbol = {symbol: match_names([symbol], names) for symbol in hot}
    exact = {found.name for matches in by_symbol.values() for found in matches}
    for symbol in [symbol for symbol in hot if not by_symbol[symbol]]:
        by_symbol[symbol] = [found for found in _same_template(symbol, names) if found.name not in exact]
    missing = [symbol for symbol in hot if not by_symbol[symbol]]
    for symbol in missing:
        if symbol.named_by_user:
            raise MavcgError(_no_such_function(symbol.asked, names))
    first: dict[str, HotSymbol] = {}
    for symbol in hot:
        for found in by_symbol[symbol]:
            first.setdefault(found.name, found)
    return list(first.values()), missing


def _same_template(symbol: HotSymbol, names: Sequence[str]) -> list[HotSymbol]:
    """The functions whose qualified name is that of an asked C++ linkage name."""
    wanted = _qualified(symbol.asked)
    alike = [name for name in names if _qualified(name) == wanted] if wanted else []
    return [replace(symbol, name=name, inexact=True, why=f"{symbol.why}, by its name") for name in alike]


@cache
def _qualified(name: str) -> str:
    """Eigen::internal::gebp_kernel::operator() for any instantiation; "" for what is no C++ linkage name."""
    whole = demangle(name)
    return _without_templates(without_parameters(whole)) if whole != name else ""


def inexact_notes(hot: Sequence[HotSymbol]) -> list[str]:
    """What people should know of functions that were found by less than their linkage names."""
    by_asked: dict[str, list[str]] = {}
    for symbol in hot:
        if symbol.inexact:
            by_asked.setdefault(symbol.asked, []).append(symbol.name)
    return [
        f"asked {demangle(asked)}, which no input defines; matched by its name without template arguments and "
        f"parameters: {'; '.join(map(demangle, names))}"
        for asked, names in by_asked.items()
    ]


def match_names(hot: Sequence[HotSymbol], names: Sequence[str]) -> list[HotSymbol]:
    """Each linkage name that some asked function matches, in the order of `hot`."""
    known = set(names)
    found: dict[str, HotSymbol] = {}
    for symbol in hot:
        for name in [symbol.asked] if symbol.asked in known else _by_people_name(symbol.asked, names):
            found.setdefault(name, replace(symbol, name=name))
    return list(found.values())


def _no_such_function(asked: str, names: Sequence[str]) -> str:
    spelled = sorted({form for name in names for form in _forms(name) if len(form) < 80})
    near = difflib.get_close_matches(asked, spelled, 3)
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "give its linkage name (as `nm` prints it), or add its source"
    )
    return f"--hot {asked}: no input defines a function of that name; {hint}"


def _by_people_name(asked: str, names: Sequence[str]) -> list[str]:
    forms = {name: _forms(name) for name in names}
    exact = [name for name, spelled in forms.items() if asked in spelled]
    if exact or not re.search(r"[*?\[]", asked):
        return exact
    return [name for name, spelled in forms.items() if any(fnmatch.fnmatchcase(s, asked) for s in spelled)]


@cache  # every asked function is looked for among all names
def _forms(name: str) -> frozenset[str]:
    """The ways in which people write a function's name."""
    whole = demangle(name)
    bare = without_parameters(whole)
    plain = _without_templates(bare)
    parts = plain.split("::")
    # A call operator is known by its class: gebp_kernel, for gebp_kernel<...>::operator()(...).
    owner = {"::".join(parts[:-1]), parts[-2]} if len(parts) > 1 and parts[-1] == "operator()" else set()
    return frozenset({name, whole, bare, plain, parts[-1]} | owner)


def _without_templates(name: str) -> str:
    """foo<int>::bar<2>  ->  foo::bar; comparison and shift operators keep their signs."""
    depth = 0
    kept = []
    protected = re.sub(r"operator(<<|>>|<=>|<=|>=|<|>|->)", lambda m: "operator" + "\0" * len(m[1]), name)
    for plain, char in zip(protected, name, strict=True):
        if plain == "<":
            depth += 1
        elif plain == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(char)
    return "".join(kept).strip()


def parse_hot(text: str) -> tuple[HotSymbol, ...]:
    """Functions of a comma-separated --hot list; commas inside template or parameter lists do not separate.

    Raises: MavcgError for an empty name.
    """
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += char in "<(["
        depth -= char in ">)]"
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    names = [part.strip() for part in [*parts, text[start:]]]
    if not all(names):
        raise MavcgError(
            f"--hot {text!r}: holds an empty name; give functions with commas between, such as sgemm,dwconv"
        )
    return tuple(HotSymbol(name) for name in dict.fromkeys(names))
