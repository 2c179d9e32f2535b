"""Reads the names of files from the rules that compilers write for make (-MD)."""

import re
from pathlib import Path

_NAME = re.compile(r"(?:\\[ #]|\S)+")
_ESCAPED = re.compile(r"\\([ #])|\$(\$)")


def files_in_rule(path: Path, directory: Path) -> tuple[str, ...]:
    """Return the absolute paths of what the first rule of a dependency file depends on; () if it cannot be read.

    directory: that the names are relative to. Source: GNU make manual, "Rule Syntax"; gcc's mkdeps.cc (munge).
    """
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ()
    rule = text.replace("\\\n", " ").split("\n", 1)[0]
    _, _, names = rule.partition(": ")
    found = (_ESCAPED.sub(lambda match: match[1] or match[2], name) for name in _NAME.findall(names))
    return tuple(str(directory / name) for name in found)
