"""mavcg.toml: the tables of a build file."""

from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.program.buildfile", "mavcg.files.decode")


def run(data: bytes) -> None:
    """Read the file; nothing is built."""
    from mavcg.program.buildfile import read_build_file, read_project

    path = file_with(data, "mavcg.toml")
    call_target(lambda: read_project(path))
    call_target(lambda: read_build_file(path))
