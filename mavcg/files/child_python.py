"""Start Python in a new process that runs no code from the current folder."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

# The package is loaded from the folders from which this process has loaded it, whatever other packages have its name,
# so that installed wheels, editable installs and plain checkouts behave alike.
_BEGINNING = """\
import sys
sys.path[:] = {path!r}
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("mavcg", {init!r}, submodule_search_locations={folders!r})
sys.modules["mavcg"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["mavcg"])
del spec, module_from_spec, spec_from_file_location
"""


def python_command(code: str, *arguments: str) -> list[str]:
    """Return the argument vector that runs Python code in a new process, with this process's packages and this mavcg.

    A module in the current folder (a `pickle.py` among the user's sources) is never imported: the interpreter is
    isolated (-I: no current folder, no PYTHON* variables), and imports from the folders that this process imports from,
    except that one.

    arguments: sys.argv[1:] of the code.
    """
    import mavcg

    (init,) = _absolute([mavcg.__file__])
    beginning = _BEGINNING.format(path=_search_path(), init=init, folders=_absolute(mavcg.__path__))
    return [sys.executable, "-I", "-c", beginning + code, *arguments]


def commands_folder() -> Path:
    """Return the folder of this interpreter's commands, where an installed `mavcg` is."""
    return Path(sys.executable).parent


def _search_path() -> list[str]:
    """Return the folders that this process imports from, except the current one."""
    here = os.path.realpath(os.curdir)
    return [folder for folder in _absolute(sys.path) if os.path.realpath(folder) != here]


def _absolute(folders: Iterable[str]) -> list[str]:
    """Return absolute names of folders, without empty names, which mean the current folder in a search path."""
    return [str(Path(folder).absolute()) for folder in folders if folder]
