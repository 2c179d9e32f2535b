"""mavcg.toml: what `mavcg build` does when it is given no arguments; the same things as its options."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError

FILE_NAME = "mavcg.toml"


@dataclass(frozen=True)
class BuildFile:
    """The [build] table of mavcg.toml. Paths are as written, relative to the file; `sources` may hold glob patterns.

    cores or board: who gets versions. hot: names; profile: a file of `mavcg profile -o`. threshold: percent of the run
    time. min_gain, max_growth: percent. flags: compiler flags for `sources`. only_hot: of compile_commands, build only
    the files that hold hot functions. tune: how hard machine passes look for schedules, "off", "fast" or "best".
    """

    output: str | None = None
    sources: tuple[str, ...] = ()
    ir: tuple[str, ...] = ()
    compile_commands: str | None = None
    flags: tuple[str, ...] = ()
    compiler: str | None = None
    hot: tuple[str, ...] = ()
    profile: str | None = None
    threshold: float | None = None
    max_functions: int | None = None
    cores: tuple[str, ...] = ()
    board: str | None = None
    target: str | None = None
    measurements: str | None = None
    min_gain: float | None = None
    max_growth: float | None = None
    rounding: str | None = None
    tune: str | None = None
    only_hot: bool | None = None


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str | None": (str,),
    "float | None": (int, float),
    "int | None": (int,),
    "tuple[str, ...]": (list,),
    "bool | None": (bool,),
}
_WORDS = {
    "str | None": "a string",
    "float | None": "a number",
    "int | None": "a whole number",
    "bool | None": "true or false",
}


def read_build_file(path: Path) -> BuildFile:
    """The [build] table of a mavcg.toml. Raises: MavcgError naming file and key for what cannot be used."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); write one, or give options") from error
    except (ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: not TOML ({error}); correct it") from error
    unknown = sorted(set(document) - {"build"})
    if unknown:
        raise MavcgError(f"{path}: [{unknown[0]}] is not known; there is one table, [build]")
    table = document.get("build")
    if not isinstance(table, dict):
        raise MavcgError(f"{path}: has no [build] table; add it, with sources, hot and cores")
    return BuildFile(**{key: _checked(path, key, value) for key, value in table.items()})


def _checked(path: Path, key: str, value: Any) -> Any:
    kinds = {field.name: str(field.type) for field in fields(BuildFile)}
    if key not in kinds:
        raise MavcgError(f"{path}: build.{key} is not known; keys are {', '.join(kinds)}")
    kind = kinds[key]
    wanted = _WORDS.get(kind, "a list of strings")
    good = isinstance(value, _KINDS[kind]) and (isinstance(value, bool) == (kind == "bool | None"))
    if kind == "tuple[str, ...]":
        good = good and all(isinstance(item, str) for item in value)
    if not good:
        raise MavcgError(f"{path}: build.{key} = {_shown(value)}: is not {wanted}; correct it")
    if any("\0" in item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)):
        raise MavcgError(f"{path}: build.{key} = {_shown(value)}: holds a zero byte, which no name can; correct it")
    return tuple(value) if isinstance(value, list) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
