"""Checks the user's options for the final link of a library, and passes on those that are known to be harmless.

The linker is ziglang's, which accepts a part of the options of GNU ld and LLVM's lld. Options that would name another
output, write further files or make something other than a shared library are refused, with the option to use instead.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError

_INPUT = re.compile(r"\.(a|o|so(\.\d+)*|dylib|tbd)$")
_LIBRARY = re.compile(r"[\w+][\w.+-]*\Z", re.ASCII)
_FLAGS = frozenset(
    (
        "as-needed",
        "no-as-needed",
        "gc-sections",
        "no-gc-sections",
        "Bsymbolic",
        "no-undefined",
        "allow-shlib-undefined",
        "no-allow-shlib-undefined",
        "undefined-version",
        "no-undefined-version",
        "whole-archive",
        "no-whole-archive",
        "start-group",
        "end-group",
        "enable-new-dtags",
        "disable-new-dtags",
        "eh-frame-hdr",
        "fatal-warnings",
        "no-fatal-warnings",
        "strip-all",
        "strip-debug",
        "discard-all",
        "s",
        "S",
        "x",
        "O1",
        "O2",
        "build-id",
    )
)
_VALUED = frozenset(("rpath", "hash-style", "u", "wrap", "build-id", "compress-debug-sections", "sort-section"))
_Z_WORDS = frozenset(("now", "lazy", "relro", "norelro", "nodelete", "noexecstack", "notext", "origin", "defs"))
_Z_VALUED = ("max-page-size=", "common-page-size=")
_REFUSED = {
    **dict.fromkeys(("o", "output"), "names another output; give -o LIBRARY.so to mavcg build"),
    **dict.fromkeys(("soname", "h"), "is set elsewhere; give --soname NAME"),
    "version-script": "is set elsewhere; give --version-script FILE",
    **dict.fromkeys(("l", "library"), "is set elsewhere; give -l NAME"),
    **dict.fromkeys(("L", "library-path"), "is set elsewhere; give -L FOLDER"),
    **dict.fromkeys(
        ("Map", "dependency-file", "reproduce", "out-implib", "cref", "print-map", "trace", "M", "t"),
        "writes beside the library; take it from a link of your own",
    ),
    **dict.fromkeys(
        ("shared", "static", "r", "relocatable", "pie", "e", "entry", "dynamic-linker", "I"),
        "makes something else than a shared library; leave it out",
    ),
    **dict.fromkeys(
        ("T", "script", "image-base", "Ttext", "section-start"),
        "moves sections that the library's notes and dispatchers count on; leave it out",
    ),
    **dict.fromkeys(("plugin", "fuse-ld", "B", "wrapper"), "runs another program; leave it out"),
}


@dataclass(frozen=True)
class LinkOptions:
    """The user's options for the link of a shared library.

    Args:
        options: for the compiler driver, such as `-Wl,-z,now`, and paths of archives and objects, in their order.
        version_script: a linker version script, which decides the exports.
        libraries: names of libraries, as after -l.
        folders: folders that are searched for libraries.
        soname: None for the file's name.
        strip: True to remove local symbols and debug information.
        runtime: the shared selector to link with; the loader searches it in the library's folder too.
    """

    options: tuple[str, ...] = ()
    version_script: Path | None = None
    libraries: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    soname: str | None = None
    strip: bool = False
    runtime: Path | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The linker's arguments after the library's own objects."""
        runtime = (str(self.runtime), "-Wl,-rpath,$ORIGIN") if self.runtime else ()
        folders = (f"-L{folder}" for folder in self.folders)
        return (*self.options, *folders, *(f"-l{name}" for name in self.libraries), *runtime)

    @property
    def option_names(self) -> tuple[str, ...]:
        """Names of the options of `mavcg build` that were given."""
        given = {
            "--link-option": self.options,
            "--version-script": self.version_script,
            "-l": self.libraries,
            "-L": self.folders,
            "--soname": self.soname,
            "--strip": self.strip,
        }
        return tuple(name for name, value in given.items() if value)


def make_link_options(
    options: Sequence[str],
    version_script: str | None,
    libraries: Sequence[str],
    folders: Sequence[str],
    soname: str | None,
    strip: bool,
    folder: Path,
) -> LinkOptions:
    """Return checked link options; paths are relative to `folder`.

    Raises: MavcgError with the option, its value and the remedy: for a missing file, an option that is not known to be
    harmless, or one that would change the output.
    """
    for name in libraries:
        if not _LIBRARY.match(name):
            raise MavcgError(f"-l {name}: is not the name of a library; give what follows lib in its file's name")
    if soname is not None and not _LIBRARY.match(soname):
        raise MavcgError(f"--soname {soname}: is not a file's name of letters, digits, . _ + and -; correct it")
    script = folder / version_script if version_script is not None else None
    if script is not None and not script.is_file():
        raise MavcgError(f"--version-script {script}: is not there; name a linker version script")
    for name in folders:
        if not (folder / name).is_dir():
            raise MavcgError(f"-L {folder / name}: is not a folder; name one that holds libraries")
    return LinkOptions(
        tuple(_check_option(option, folder) for option in options),
        script,
        tuple(libraries),
        tuple(folder / name for name in folders),
        soname,
        strip,
    )


def _check_option(option: str, folder: Path) -> str:
    """Return an option, with an input's path made absolute. Raises: MavcgError if it is not allowed."""
    if option == "-pthread":
        return option
    if option.startswith("-Wl,"):
        for name, value in _linker_words(option):
            _check_word(option, name, value)
        return option
    if _INPUT.search(option) and not option.startswith(("-", "@")):
        if not (folder / option).is_file():
            raise MavcgError(f"--link-option {folder / option}: is not there; name an archive or an object")
        return str(folder / option)
    name = option.lstrip("-").partition("=")[0]
    remedy = _REFUSED.get(name) or _REFUSED.get(name[:1] if option.startswith(("-l", "-L", "-o")) else "")
    raise MavcgError(f"--link-option {option}: {remedy or _known_options()}")


def _linker_words(option: str) -> Iterator[tuple[str, str | None]]:
    """Yield (name without dashes, value) for each linker option in `-Wl,a,b,c`."""
    words = iter(option.split(",")[1:])
    for word in words:
        if word.startswith("@") or not word.startswith("-"):
            raise MavcgError(f"--link-option {option}: {word!r} is not an option; {_known_options()}")
        name, equals, value = word.lstrip("-").partition("=")
        takes_next = not equals and (name == "z" or (name in _VALUED and name not in _FLAGS))
        if takes_next:
            next_word = next(words, None)
            if next_word is None:
                raise MavcgError(f"--link-option {option}: {word} lacks its value; write -Wl,{word},VALUE")
            yield name, next_word
        elif name.startswith("z") and name[1:] in _Z_WORDS:
            yield "z", name[1:]
        else:
            yield name, value if equals else None


def _check_word(option: str, name: str, value: str | None) -> None:
    if name == "z":
        known = value in _Z_WORDS or any((value or "").startswith(start) for start in _Z_VALUED)
        if not known:
            words = ", ".join(sorted(_Z_WORDS) + [f"{start}N" for start in _Z_VALUED])
            raise MavcgError(f"--link-option {option}: -z {value} is not known here; known are {words}")
        return
    if (value is None and name in _FLAGS) or (value is not None and name in _VALUED):
        return
    remedy = _REFUSED.get(name) or next((w for n, w in _REFUSED.items() if len(n) == 1 and name.startswith(n)), "")
    raise MavcgError(f"--link-option {option}: {remedy or _known_options()}")


def _known_options() -> str:
    known = ", ".join(sorted(_FLAGS | _VALUED))
    return f"is not known to keep to the library; taken are archives, objects, -pthread and -Wl, with -z or: {known}"
