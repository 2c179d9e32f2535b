"""Find the files of facts: those beside this module, and the user's own in the folders of MAVCG_PROFILES.

MAVCG_PROFILES lists folders, separated as in PATH, each with cores/*.toml, boards/*.toml, fits/*.toml,
isa_targets/*.toml, or accelerators/*.json and *.toml. A file there replaces mavcg's file of the same name, so that
users can correct a fact without a change of the installation.
"""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mavcg.errors import ProfileError

HERE = Path(__file__).resolve().parent
KINDS = ("cores/", "boards/", "accelerators/", "isa_targets/", "fits/", "gpus/")  # of a folder of MAVCG_PROFILES
SUFFIXES = {
    "cores": (".toml",),
    "boards": (".toml",),
    "accelerators": (".json", ".toml"),
    "isa_targets": (".toml",),
    "fits": (".toml",),
    "gpus": (".toml",),
    "technologies": (".toml",),
}


def files(kind: str) -> dict[str, Path]:
    """Return the files of a kind in SUFFIXES by name, in alphabetical order.

    Raises: ProfileError for a folder of MAVCG_PROFILES that does not exist or is empty, and for two files with the same
    name in one folder.
    """
    by_name: dict[str, Path] = {}
    for folder in _folders():
        by_name |= _by_name(folder / kind, tuple(os.listdir(folder / kind)) if (folder / kind).is_dir() else (), kind)
    return dict(sorted(by_name.items()))


@lru_cache(maxsize=64)
def _by_name(folder: Path, entries: tuple[str, ...], kind: str) -> Mapping[str, Path]:
    """Return the files of a kind among a folder's entries. The result is kept, because one command lists the cores for
    each of some hundred loops. Raises: as files."""
    here: dict[str, Path] = {}
    for path in sorted(folder / entry for entry in entries if entry.endswith(tuple(SUFFIXES[kind]))):
        if path.stem in here:
            raise ProfileError(f"{path}: {here[path.stem].name} beside it has the same name; remove one of them")
        here[path.stem] = path
    return MappingProxyType(here)


def _folders() -> Iterable[Path]:
    yield HERE
    for entry in filter(None, os.environ.get("MAVCG_PROFILES", "").split(os.pathsep)):
        folder = Path(entry)
        if not folder.is_dir():
            raise ProfileError(f"MAVCG_PROFILES: {entry} is not a folder; name folders that hold {', '.join(KINDS)}")
        if not any((folder / kind).is_dir() for kind in KINDS):
            raise ProfileError(
                f"MAVCG_PROFILES: {entry} has no folder {' or '.join(KINDS)}; put the files into folders of these names"
            )
        yield folder
