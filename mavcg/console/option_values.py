"""Parse values of command line options: paths relative to the current folder, and lists of names."""

from pathlib import Path

from mavcg.errors import MavcgError


def path_from_here(name: str | None) -> str | None:
    """Return an option's path as an absolute one, so that it is not read as relative to the build file's folder."""
    return str(Path(name).absolute()) if name is not None else None


def input_from_here(option: str) -> str:
    """Return a link option with an absolute path if it names an archive or object."""
    return option if option.startswith("-") else str(Path(option).absolute())


def paths_from_here(names: list[str] | None) -> tuple[str, ...]:
    return tuple(str(Path(name).absolute()) for name in names or ())


def names_of_option(text: str | None) -> tuple[str, ...]:
    """Split the value of --cores at commas; () for None. Raises: MavcgError for an empty name."""
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise MavcgError(
            f"--cores {text!r}: has an empty name; give names with commas between them (`mavcg cores` lists them)"
        )
    return tuple(names)
