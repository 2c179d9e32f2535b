"""Finds the programs that `make` without a goal would link, by reading a makefile; runs neither make nor a shell.

`make -n` is not used: it runs `$(shell ..)` and recipes with `$(MAKE)`. So functions, includes and programs of makes in
other folders are not seen, and nothing is guessed in their place.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_ASSIGNMENT = re.compile(r"^\s*(?:export |override )?\s*([\w.-]+)\s*([:?+!]{0,3}=)\s*(.*)$")
_RULE = re.compile(r"^([^\s#:=][^:=#]*?)\s*::?(?!=)([^;]*)(?:;(.*))?$")
_REFERENCE = re.compile(r"\$[({]([\w.-]+)[)}]")
_FUNCTION = re.compile(r"\$[({][^(){}]*[)}]")
_COMPILER = re.compile(
    r"\$[({](?:CC|CXX|LD|LINK[\w.]*|HOSTCC|CCLD|CXXLD)[)}]|(?:^|[\s/@-])(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ld)\s"
)
_NO_PROGRAM = re.compile(r"(?:^|\s)(?:-c|-S|-E|-M\w*|-shared|-r|-dynamiclib)(?:\s|$)")
_COMPILED = (".o", ".c", ".cc", ".cpp", ".cxx", ".C")  # NAME is linked from NAME.o or made of NAME.c without a recipe
_DEPTH = 8  # of variables that name variables


@dataclass
class _Rules:
    """The rules of a makefile: prerequisites and recipe of each target, in the file's order; unexpanded recipes."""

    prerequisites: dict[str, list[str]] = field(default_factory=dict)
    recipes: dict[str, list[str]] = field(default_factory=dict)
    goal: str = ""


def make_programs(text: str) -> tuple[str, ...]:
    """Return the programs that the default goal of a makefile links, in the order in which it reaches them."""
    variables, rules = _read(text)
    phony = set(rules.prerequisites.get(".PHONY", ()))
    found: dict[str, None] = {}
    pending, seen = [rules.goal], set[str]()
    while pending:
        target = pending.pop(0)
        if not target or target in seen:
            continue
        seen.add(target)
        needed = rules.prerequisites.get(target, [])
        if target not in phony and _is_linked(target, needed, rules.recipes.get(target, []), variables):
            found[target] = None
        pending += needed
    return tuple(found)


def _is_linked(target: str, needed: Sequence[str], recipe: Sequence[str], variables: Mapping[str, str]) -> bool:
    """True if a target's recipe links it to a program, or if make's implicit rule would."""
    if PurePosixPath(target).suffix not in ("", ".exe", ".elf") or not re.fullmatch(r"[\w./+-]+", target):
        return False
    if not recipe:
        return any(f"{target}{suffix}" in needed for suffix in _COMPILED)
    return any(_links(line, target, variables) for line in recipe)


def _links(line: str, target: str, variables: Mapping[str, str]) -> bool:
    shown = _expand(line, variables)
    names_output = re.search(rf"-o\s*(?:\$@|\$\(@\)|{re.escape(target)})(?:\s|$)", shown) is not None
    return names_output and not _NO_PROGRAM.search(shown) and _COMPILER.search(f"{line} {shown} ") is not None


def _read(text: str) -> tuple[dict[str, str], _Rules]:
    variables: dict[str, str] = {}
    rules = _Rules()
    targets: list[str] = []
    for line in re.sub(r"\\\n[ \t]*", " ", text).split("\n"):
        if line.startswith("\t"):
            for target in targets:
                rules.recipes.setdefault(target, []).append(line)
            continue
        line = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        if assigned := _ASSIGNMENT.match(line):
            name, how, value = assigned.groups()
            if how == "+=":
                value = f"{variables.get(name, '')} {value}"
            if how != "?=" or name not in variables:
                variables[name] = value
        elif rule := _RULE.match(line):
            targets = _expand(rule[1], variables).split()
            needed = [name for name in _expand(rule[2], variables).split() if name != "|"]
            for target in targets:
                rules.prerequisites.setdefault(target, []).extend(needed)
                if rule[3]:
                    rules.recipes.setdefault(target, []).append(rule[3])
            if not rules.goal:
                rules.goal = next((t for t in targets if not t.startswith(".") and "%" not in t), "")
    named = _expand(variables.get(".DEFAULT_GOAL", ""), variables).strip()
    rules.goal = named or rules.goal
    return variables, rules


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with variables replaced; functions, and variables that are not set here, become nothing."""
    for _ in range(_DEPTH):
        new = _REFERENCE.sub(lambda m: variables.get(m[1], ""), text)
        if new == text or len(new) > 1 << 20:
            break
        text = new
    return _FUNCTION.sub("", text)
