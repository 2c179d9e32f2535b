"""Values of command line options: paths relative to the current folder, and lists of names."""

from pathlib import Path

from mavcg.errors import MavcgError


def path_from_here(name: str | None) -> str | None:
    """Make an option's path relative to the current folder, not to the build file's folder."""
    return str(Path(name).absolute()) if name is not None else None


def input_from_here(option: str) -> str:
    """Make a link option's path of an archive or object absolute."""
    return option if option.startswith("-") else str(Path(option).absolute())


def paths_from_here(names: list[str] | None) -> tuple[str, ...]:
    return tuple(str(Path(name).absolute()) for name in names or ())


def names_of_option(text: str | None) -> tuple[str, ...]:
    """Split an option's value at commas; none for None. Raises: MavcgError for an empty name."""
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise MavcgError(
            f"--cores {text!r}: holds an empty name; give cores with commas between (`mavcg cores` lists them)"
        )
    return tuple(names)
