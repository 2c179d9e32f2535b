"""compile_commands.json: entries, command lines, and the options for IR that follow from them."""

from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.program.sources.arguments",
    "mavcg.program.sources.command_line",
    "mavcg.program.sources.ir_options",
    "mavcg.program.sources.compile_commands",
)


def run(data: bytes) -> None:
    """Read the file and translate each unit's flags; no compiler is called."""
    from mavcg.program.sources.command_line import translate
    from mavcg.program.sources.compile_commands import read_compile_commands
    from mavcg.toolchain.target import parse_target

    path = file_with(data, "compile_commands.json")
    target = parse_target("aarch64-linux-gnu")

    def read() -> None:
        for unit in read_compile_commands(path).units:
            translate(unit.flags, target, unit.language)

    call_target(read)
