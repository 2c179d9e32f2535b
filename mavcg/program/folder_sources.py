"""The C and C++ files of a folder without a build system that make one library, for `mavcg init`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

# The name of a function that a line defines, and that of C's words that look like one.
_DEFINED = re.compile(r"^[A-Za-z_][\w \t*]*?\b(\w+)[ \t]*\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\)\s*\{", re.M)
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
_SAME_FUNCTIONS = 0.5  # a folder with this fraction of functions that another has is a copy
_COUNTED = 5  # fewest functions of a copy
_ASIDE = {"example", "examples", "test", "tests"}
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc")


@dataclass(frozen=True)
class FolderSources:
    """The files of one library, relative to its folder.

    Args:
        sources: files to be compiled, without those that have a main function.
        mains: files with a main function.
        copies: folders that are left out because they define the functions of others.
        aside: folders of examples and tests that are left out.
        include_folders: folders of headers that the sources name without a folder.
    """

    sources: tuple[str, ...]
    mains: tuple[str, ...]
    copies: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()


def one_library(
    sources: Sequence[str], mains: Sequence[str], files: Sequence[str], text: Callable[[str], str]
) -> FolderSources:
    """Return what makes one library of the sources in a folder.

    Copies of a library are taken once. Examples and tests are left out where there are other files, unless there is one
    program in all. mains: those with a main function. files: all in the folder. text: the text of a file by its name.
    """
    copies = _copies(sources, text)
    sources = [name for name in sources if _folder(name) not in copies]
    mains = [name for name in mains if name in sources]
    own = [name for name in sources if not _aside(name)]
    aside: tuple[str, ...] = ()
    if own and len(mains) != 1:
        aside = tuple(sorted({_aside(name) for name in sources} - {""}))
        sources, mains = own, [name for name in mains if name in own]
    headers = [name for name in files if name.endswith(_HEADERS) and _folder(name) not in copies]
    headers = [name for name in headers if _aside(name) not in aside]
    return FolderSources(
        tuple(name for name in sources if name not in mains),
        tuple(mains),
        copies,
        aside,
        _include_folders(sources, headers, text),
    )


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _aside(name: str) -> str:
    """Return the uppermost folder of examples or tests that a file is in; "" for none."""
    parents = [parent for parent in PurePosixPath(name).parents if parent.name.lower() in _ASIDE]
    return parents[-1].as_posix() if parents else ""


def _copies(sources: Sequence[str], text: Callable[[str], str]) -> tuple[str, ...]:
    """Return the folders of sources that define mostly the functions of an earlier folder, the shallowest first."""
    functions: dict[str, set[str]] = {}
    for name in sources:
        functions.setdefault(_folder(name), set()).update(_DEFINED.findall(text(name)))
    known: set[str] = set()
    copies = []
    for parent in sorted(functions, key=lambda parent: (parent.count("/") + bool(parent), parent)):
        own = functions[parent] - {"main"}
        if len(own) >= _COUNTED and len(own & known) >= _SAME_FUNCTIONS * len(own):
            copies.append(parent)
        else:
            known |= own
    return tuple(copies)


def _include_folders(sources: Sequence[str], headers: Sequence[str], text: Callable[[str], str]) -> tuple[str, ...]:
    """Return the folders of headers that sources elsewhere include; of several with a header the shallowest."""
    by_name: dict[str, list[str]] = {}
    for header in headers:
        by_name.setdefault(PurePosixPath(header).name, []).append(header)
    folders: dict[str, None] = {}
    for name in sources:
        for included in _INCLUDED.findall(text(name)):
            alike = by_name.get(PurePosixPath(included).name, ())
            found = [f"/{h}".removesuffix(f"/{included}")[1:] for h in alike if f"/{h}".endswith(f"/{included}")]
            if found and not {_folder(name), *folders} & set(found):
                folders[min(found, key=lambda folder: (folder.count("/") + bool(folder), folder))] = None
    return tuple(folder or "." for folder in folders)
