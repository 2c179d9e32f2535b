"""The share of a reader's lines that inputs of a target reach: `python -m fuzz.line_share TARGET [FOLDER|FILE ..]`.

Lines are those of the readers that readers.toml names for the target, and of what these use of their modules, as
Python's code objects count them; lines that run when a module is imported say nothing and are left out. Prints JSON:
module -> [reached, lines].
"""

import ast
import contextlib
import importlib
import io
import json
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fuzz.targets import NAMES
from fuzz.targets._files import temporary_in_memory

READERS = Path(__file__).parent / "readers.toml"


def readers_of(target: str) -> Mapping[str, Collection[str]]:
    """Return module -> names of the target's readers in it, in the order of readers.toml."""
    found: dict[str, list[str]] = {}
    for name in tomllib.loads(READERS.read_text())["targets"].get(target, ()):
        module, _, attribute = name.partition(":")
        found.setdefault(module, []).append(attribute)
    return found


def line_shares(
    target: str, inputs: Iterable[bytes], readers: Mapping[str, Collection[str]]
) -> Mapping[str, tuple[int, int]]:
    """Return module -> (lines of its readers that the inputs reach, all their lines). readers: as of readers_of."""
    run = importlib.import_module(f"fuzz.targets.{target}").run
    run(b"")  # what is imported late
    files = {str(importlib.import_module(name).__file__): name for name in readers}
    reached = _trace(run, inputs, files)
    shares = {}
    for file, name in files.items():
        text = Path(file).read_text()
        used = _lines_used(ast.parse(text), readers[name])
        lines = used & set(_function_lines(compile(text, file, "exec"), False))
        shares[name] = len(lines & reached[file]), len(lines)
    return shares


def _lines_used(module: ast.Module, names: Iterable[str]) -> set[int]:
    """Return the lines of the named functions and classes, and of those of the module that they use."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    definitions = {node.name: node for node in module.body if isinstance(node, kinds)}
    lines, pending, seen = set[int](), list(names), set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name not in definitions:
            continue
        seen.add(name)
        node = definitions[name]
        lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        pending += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    return lines


def _trace(run: Callable[[bytes], None], inputs: Iterable[bytes], files: Collection[str]) -> dict[str, set[int]]:
    reached: dict[str, set[int]] = {file: set() for file in files}

    def in_function(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            reached[frame.f_code.co_filename].add(frame.f_lineno)
        return in_function

    def on_call(frame: FrameType, _event: str, _: Any) -> Any:
        return in_function if frame.f_code.co_filename in reached else None

    for data in inputs:
        sys.settrace(on_call)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                run(data)
        except Exception:  # noqa: S110, a fault that the run has reported
            pass
        finally:
            sys.settrace(None)
    return reached


def _function_lines(code: CodeType, is_function: bool) -> Iterator[int]:
    if is_function:
        yield from (line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            # The bodies of classes run when the module is imported; they have no fast locals.
            yield from _function_lines(constant, bool(constant.co_flags & 0x2))


def inputs_of(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the contents of files, and of the files in folders."""
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            yield file.read_bytes()


def main(words: Sequence[str]) -> None:
    """The command line."""
    if not words or words[0] not in NAMES:
        sys.exit(f"fuzz.line_share: name a target: {', '.join(NAMES)}")
    temporary_in_memory()
    shares = line_shares(words[0], inputs_of(map(Path, words[1:])), readers_of(words[0]))
    print(json.dumps(shares))


if __name__ == "__main__":
    main(sys.argv[1:])
