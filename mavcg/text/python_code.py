"""Python source reduced to its code, so that digests of it survive changes of words and formatting."""

import ast

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
