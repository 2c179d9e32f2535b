"""Find shared libraries with a CBLAS sgemm on this machine, for primitives that call them.

Finding a library loads it into this process, which runs its initialisers. The user names its file, or its soname is
found as the system's loader does.
"""

import ctypes
import hashlib
import re
from collections.abc import Sequence
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.specs.foreign_library import ForeignLibrary

OPENBLAS = "openblas"
SONAMES = {OPENBLAS: ("libopenblas.so.0", "libopenblas.so", "libopenblas.dylib")}
WHEEL = "scipy_openblas32"  # a package with OpenBLAS and no system beside it
# Names of sgemm, and whether integers have 64 bits: as CBLAS says, and as builds of OpenBLAS for NumPy and SciPy do.
SYMBOLS = (
    ("cblas_sgemm", False),
    ("scipy_cblas_sgemm", False),
    ("cblas_sgemm64_", True),
    ("scipy_cblas_sgemm64_", True),
)
CONFIGS = tuple(f"{prefix}openblas_get_config{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_"))
DIGITS = 6
_NAME = re.compile(r"[a-z][a-z0-9]*")
_VERSION = re.compile(r"OpenBLAS ([0-9][0-9A-Za-z.]*)")


def find_foreign(text: str) -> ForeignLibrary:
    """Return the library that NAME or NAME=PATH names.

    Raises: MavcgError for a bad name, a library that does not exist or cannot be loaded, and one without a CBLAS sgemm.
    """
    name, given, path_text = text.partition("=")
    if not _NAME.fullmatch(name):
        raise MavcgError(f"--foreign {text}: '{name}' is not a name; give {OPENBLAS}, or NAME=PATH in small letters")
    path = Path(path_text) if given else _installed_file(name)
    if not path.is_file():
        raise MavcgError(f"--foreign {text}: there is no file {path}; name the shared library, such as {_example()}")
    path = path.resolve()
    loaded = _load(text, path)
    for symbol, wide in SYMBOLS:
        if hasattr(loaded, symbol):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]
            return ForeignLibrary(name, _version(loaded), digest, str(path), symbol, wide)
    raise MavcgError(
        f"--foreign {text}: {path} exports no sgemm of CBLAS ({', '.join(symbol for symbol, _ in SYMBOLS)}); name "
        f"another library, such as {_example()}"
    )


def sgemm_address(library: ForeignLibrary) -> int:
    """Return the address of the library's sgemm in this process. Raises: MavcgError if it can no longer be loaded."""
    function = getattr(_load(library.label, Path(library.path)), library.symbol)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _load(text: str, path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise MavcgError(
            f"--foreign {text}: {path} cannot be loaded ({error}); name a library of this machine"
        ) from None


def _example() -> str:
    return f"{OPENBLAS}=/usr/lib/{SONAMES[OPENBLAS][0]}"


def _installed_file(name: str) -> Path:
    """Return the file of a library that mavcg knows by name. Raises: MavcgError if it is unknown or not installed."""
    if name not in SONAMES:
        raise MavcgError(f"--foreign {name}: no library is known by this name; give its path: {name}=PATH")
    spec = find_spec(WHEEL)
    folders = [Path(folder) / "lib" for folder in (spec.submodule_search_locations or ())] if spec is not None else []
    for soname in (*SONAMES[name], *filter(None, (find_library(name),))):
        if (path := _path_of(soname)) is not None:
            return path
    for library in (library for folder in folders for library in sorted(folder.glob("lib*openblas*"))):
        return library
    raise MavcgError(
        f"--foreign {name}: {_list_of(SONAMES[name])} is not installed; install it (Debian: libopenblas0), or name the "
        f"file: {_example()}"
    )


def _path_of(soname: str) -> Path | None:
    """Return the file that the system's loader finds for a soname; None if it finds none."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return None
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    # The loader may have followed links: what is mapped has the soname's beginning.
    stem = soname.partition(".")[0]
    return next((Path(line.split(maxsplit=5)[5]) for line in lines if f"/{stem}" in line), None)


def _list_of(names: Sequence[str]) -> str:
    return " or ".join(names)


def _version(loaded: ctypes.CDLL) -> str:
    for name in CONFIGS:
        if hasattr(loaded, name):
            function = getattr(loaded, name)
            function.argtypes, function.restype = [], ctypes.c_char_p
            match = _VERSION.match((function() or b"").decode(errors="replace"))
            return match[1] if match else ""
    return ""
