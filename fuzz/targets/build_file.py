"""mavcg.toml: the tables of a build file."""

from fuzz.targets import checked
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.program_road.buildfile", "mavcg.toml_tables")


def run(data: bytes) -> None:
    """Read the file; nothing is built."""
    from mavcg.program_road.buildfile import read_build_file, read_project

    path = file_with(data, "mavcg.toml")
    checked(lambda: read_project(path))
    checked(lambda: read_build_file(path))
