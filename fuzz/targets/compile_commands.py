"""compile_commands.json: entries, command lines, and the options for IR that follow from them; response files."""

from fuzz.mutation.trees import json_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.program.sources.arguments",
    "mavcg.program.sources.command_line",
    "mavcg.program.sources.ir_options",
    "mavcg.program.sources.compile_commands",
    "mavcg.program.sources.drivers",
    "mavcg.files.decode",
)
mutate = json_mutator(
    "directory file command arguments output -c -o -x c++ assembler -std=c11 -O2 -Ofast -Os -g -fPIC "
    "-march=native -march=armv8.2-a -mcpu=cortex-a55 -m32 -target --target=x86_64-linux-gnu -isystem "
    "-include -imacros -I. -D -U -MD -MF -Wp,-MMD,x -Wl,-z -Xclang -fplugin=x.so -B/x --sysroot=/ @x "
    "@compile_commands.json "
    "-E -S -M -save-temps -pipe -flto -fsanitize=address -specs=x -wrapper a.c b.cpp x.S y.f90 gcc "
    "clang++ ccache distcc env A=b mavcg launch -- -iquote -mllvm -fopenmp -ffast-math -fno-builtin "
    "-pthread -nostdinc -arch arm64 \"a 'a \\"
)


def run(data: bytes) -> None:
    """Read the file, also as a response file, and translate each unit's flags; no compiler is called."""
    from mavcg.program.sources.arguments import expand_response_files
    from mavcg.program.sources.command_line import translate
    from mavcg.program.sources.compile_commands import read_compile_commands
    from mavcg.toolchain.target import parse_target

    path = file_with(data, "compile_commands.json")
    target = parse_target("aarch64-linux-gnu")

    def read() -> None:
        for unit in read_compile_commands(path).units:
            translate(unit.flags, target, unit.language)

    call_target(read)
    call_target(lambda: expand_response_files([f"@{path.name}"], path.parent, "fuzzed"))
