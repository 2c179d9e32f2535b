"""Boards' TOML files."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.profiles.board_files", "mavcg.profiles.schema", "mavcg.files.decode", "mavcg.hardware.board")
mutate = toml_mutator("cpus core max_khz l2_bytes 0-3 0-1,4 aarch64-linux-gnu cortex-a55 x86_64")


def run(data: bytes) -> None:
    """Read the file of a board."""
    from mavcg.profiles.board_files import read_board

    path = file_with(data, "fuzzed.toml")
    call_target(lambda: read_board(path))
