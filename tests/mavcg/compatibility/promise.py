"""What version 1 promises, as lines that can be compared: options, keys, names and layouts (docs/compatibility.md).

promise.json is the recorded promise. A line that is recorded stays true: tests compare. What is new is added by

    python -m tests.mavcg.compatibility.promise

which removes nothing. JSON documents are recorded by tests/mavcg/compatibility/documents.py.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer

import mavcg
from mavcg.cli.app import make_app
from mavcg.files.whole_file import write_whole
from mavcg.runtime import model_header
from mavcg.runtime.declared import ffi

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RECORDED = HERE / "promise.json"
HEADERS = ("engine_api.h", "application_api.h", "sizes_api.h")


def option_lines() -> Iterator[str]:
    """Each verb's options and arguments, and whether they take a value, are repeated or required."""
    yield from _options_of(typer.main.get_command(make_app()), "mavcg")


def _options_of(command: Any, name: str) -> Iterator[str]:
    for word, below in getattr(command, "commands", {}).items():
        yield from _options_of(below, f"{name} {word}")
    for number, parameter in enumerate(command.params):
        kind = "flag" if getattr(parameter, "is_flag", False) else "value"
        many = " repeated" if getattr(parameter, "multiple", False) or parameter.nargs != 1 else ""
        if parameter.param_type_name == "argument":
            yield f"{name}: argument {number + 1}{many}"
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("-"):
                yield f"{name}: {option} {kind}{many}"


def toml_lines() -> Iterator[str]:
    """The keys of mavcg.toml and of application files, with the types of their values."""
    from mavcg.apps import application_file
    from mavcg.program.buildfile import BuildFile, ModelTable, ProfileTable

    yield from _keys("mavcg.toml [profile]", ProfileTable)
    yield from _keys("mavcg.toml [build]", BuildFile)
    yield from _keys("mavcg.toml [[model]]", ModelTable)
    yield from _keys("app.toml", application_file._Application)
    yield from _keys("app.toml [[network]]", application_file._Network)


def _keys(table: str, kind: Any) -> Iterator[str]:
    for name, hint in get_type_hints(kind, include_extras=False).items():
        for accepted in sorted(_kinds(hint)):
            yield f"{table}: {name} may be {accepted}"


def _kinds(hint: Any) -> set[str]:
    """The kinds of TOML values that a key takes."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return {kind for part in get_args(hint) if part is not NoneType for kind in _kinds(part)}
    origin = get_origin(hint) or hint
    if issubclass(origin, Mapping) or is_dataclass(origin):
        return {"a table"}
    return {"an array"} if issubclass(origin, tuple) else {f"{origin.__name__}"}


def c_lines() -> Iterator[str]:
    """Offsets, sizes and types of the fields of public structures, and the values of constants."""
    for name in ffi.list_types()[0]:
        if name.startswith("mavcg_"):
            if not name.endswith("_table"):  # these may grow at the end: `api` says what a library has
                yield f"{name}: {ffi.sizeof(name)} bytes"
            for field, at in ffi.typeof(name).fields:
                if field != "reserved":
                    yield f"{name}.{field} at {at.offset}: {at.type.cname}"
    for header in HEADERS:
        text = (ROOT / "runtime/csrc" / header).read_text()
        for constant, value in re.findall(r"^ +(MAVCG_\w+) = (-?\d+)", text, re.M):
            yield f"{constant} = {value}"
        for function in re.findall(r"^const \w+ \*(mavcg_\w+)\(void\);", text, re.M):
            yield f"exported: {function}"
    for function in (*model_header._FUNCTIONS, *model_header._SHAPE_FUNCTIONS):
        yield f"exported: {model_header.EXPORTED}NAME_{function}"


def python_lines() -> Iterator[str]:
    """The names of the package, the parameters of its functions, the methods of what they return."""
    for name in ("load", "load_application", "load_sizes", "sandbox"):
        for parameter in inspect.signature(getattr(mavcg, name)).parameters.values():
            optional = "" if parameter.default is parameter.empty else " optional"
            yield f"mavcg.{name}: {parameter.name}{optional}"
    for kind in (mavcg.Model, mavcg.LoadedApplication, mavcg.SizedModel):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and name != "of_context":
                yield f"mavcg.{kind.__name__}.{name}"
                if callable(member):
                    names = list(inspect.signature(member).parameters)
                    yield from (f"mavcg.{kind.__name__}.{name}: {each}" for each in names if each != "self")


def variable_lines() -> Iterator[str]:
    """The environment variables that pages name and the code reads."""
    pages = "\n".join(path.read_text() for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md"))
    files = [path for folder in ("mavcg", "runtime", "profiles", "passes") for path in (ROOT / folder).rglob("*.*")]
    code = "\n".join(path.read_text() for path in files if path.suffix in (".py", ".c", ".h"))
    read = set(re.findall(r'"(MAVCG_[A-Z_]+)"', code))
    constants = {line.partition(" ")[0] for line in c_lines()}
    yield from sorted((read - constants) & set(re.findall(r"\bMAVCG_[A-Z_]+\b", pages)))


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "options": option_lines,
    "toml": toml_lines,
    "c": c_lines,
    "python": python_lines,
    "variables": variable_lines,
}


def recorded() -> dict[str, list[str]]:
    """The recorded promise: section -> lines."""
    promise: dict[str, list[str]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return promise


def record(section: str, lines: set[str]) -> None:
    """Add lines to a section of the recorded promise."""
    promise = recorded()
    promise[section] = sorted(lines | set(promise.get(section, ())))
    write_whole(RECORDED, json.dumps(promise, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    for section, lines in SECTIONS.items():
        record(section, set(lines()))
