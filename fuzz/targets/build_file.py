"""mavcg.toml: the tables of a build file."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.program.buildfile", "mavcg.program.hot_symbols", "mavcg.files.decode", "mavcg.files.file_types")
mutate = toml_mutator("build profile model sources flags hot cores board host command threads shapes")


def run(data: bytes) -> None:
    """Read the file; nothing is built."""
    from mavcg.program.buildfile import read_build_file, read_project

    path = file_with(data, "mavcg.toml")
    call_target(lambda: read_project(path))
    call_target(lambda: read_build_file(path))
