"""Digests of source files that survive changes of docstrings, comments and the formatting of Python."""

import ast
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

# A string or character literal is matched first, so that a comment inside it counts as its content.
_LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACES = re.compile(r"[ \t]+$", re.MULTILINE)


def c_without_comments(source: str) -> str:
    """Return a C source with a space in place of each comment, and without blank lines and spaces at lines' ends."""
    code = _LITERAL_OR_COMMENT.sub(lambda match: " " if match[0].startswith("/") else match[0], source)
    return "\n".join(line for line in _SPACES.sub("", code).split("\n") if line)


_WITH_BODY = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def code_without_words(source: str) -> str:
    """Return the code that a source's syntax tree stands for, without docstrings, comments and formatting.

    Two sources with the same result are the same program. Raises: SyntaxError for text that is not Python.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _WITH_BODY) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def digest_of_code(paths: Iterable[Path], root: Path) -> str:
    """Return the SHA-256 digest, in hexadecimal, of files' code and of their paths below a folder.

    Python and C count without their words; other files count as they are. Raises: OSError for a file that cannot be
    read, SyntaxError for a .py that is not Python.
    """
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + _code(path) + b"\0")
    return digest.hexdigest()


def _code(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".py":
        return code_without_words(content.decode()).encode()
    if path.suffix in (".c", ".h"):
        return c_without_comments(content.decode()).encode()
    return content
