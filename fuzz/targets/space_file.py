"""Design spaces: of accelerators, of accelerators with an instruction set, of boards."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.accelerators.explore.space_file",
    "mavcg.accelerators.explore.design_space",
    "mavcg.accelerators.explore.board_space",
    "mavcg.accelerators.explore.target_space",
    "mavcg.accelerators.explore.design_space",
)
mutate = toml_mutator("levels mem_size IC OC KW f16 i8 base search small zu9 mix max_khz 45nm")


def run(data: bytes) -> None:
    """Read the space as each kind, and its first and last point."""
    from mavcg.accelerators.explore.board_space import is_board_space, read_board_space
    from mavcg.accelerators.explore.space_file import read_space
    from mavcg.accelerators.explore.target_space import is_target_space, read_target_space

    path = file_with(data, "space.toml")

    def read() -> None:
        if is_board_space(path):
            read_board_space(path)
        elif is_target_space(path):
            space = read_target_space(path)
            assert space.point(0).keys() == space.point(space.points - 1).keys()
        else:
            read_space(path)

    call_target(read)
