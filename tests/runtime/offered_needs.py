"""Features of a machine as the words that the selector compares, and the answers of the selector."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from mavcg.hardware.core import Core
from mavcg.hardware.extensions import INVISIBLE, hwcap_words
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.coreset import NEED_WORDS, CoreSet, table_text
from mavcg.runtime.needs import compiler_extensions, cpuid_words, needs_words
from mavcg.toolchain.zig import run_tool

ALL_BITS = (0xFFFFFFFF,) * NEED_WORDS
Words = tuple[int, ...]


def needs_of(core: Core) -> tuple[str, ...]:
    """Everything that code for this core may show: the most that a version can need."""
    if core.arch == "x86_64":
        return tuple(sorted(compiler_extensions(core.llvm_cpu, core.llvm_features)))
    return tuple(sorted(set(core.extensions) - set(INVISIBLE)))


def identity_of(core: Core) -> str:
    """MIDR_EL1, then vendor, family and model as CPUID gives them."""
    if core.midr:
        return f"{midr_of(core):x} 0 0 0"
    models = core.x86_models[0]
    return f"0 {('GenuineIntel', 'AuthenticAMD').index(models.vendor) + 1} {models.family} {models.models[0]}"


def midr_of(core: Core) -> int:
    rule = core.midr[0]
    return rule.implementer << 24 | rule.variant_min << 20 | 0xF << 16 | rule.part << 4


def without(extension: str, core: Core) -> Iterator[Words]:
    """The words of machines that offer everything but one bit of this extension."""
    words = cpuid_words([extension]) if core.arch == "x86_64" else hwcap_words([extension])
    for number, word in enumerate(words):
        for bit in (1 << n for n in range(32) if word >> n & 1):
            yield (*ALL_BITS[:number], ALL_BITS[0] & ~bit, *ALL_BITS[number + 1 :])


Ask = Callable[[list[tuple[Core, Words]]], list[tuple[int, int]]]


def asker(core_set: CoreSet, folder: Path) -> Ask:
    """ask(questions): the ids that the selector of a core set chooses; a question is (core, words)."""
    ask = tile_asker(core_set, folder)
    return lambda questions: ask(questions, False)[0]


def tile_asker(
    core_set: CoreSet, folder: Path
) -> Callable[[list[tuple[Core, Words]], bool], tuple[list[tuple[int, int]], int]]:
    """ask(questions, refused): the answers as of asker, and how often the system was asked for AMX's tiles.

    refused: whether it refuses them.
    """
    (folder / "mavcg_core_table.h").write_text(table_text(core_set, {}, needs_words(core_set)))
    write_unit("runtime", folder)
    macros = ["-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0", "-DMAVCG_OFFERED=offered_here", "-D_GNU_SOURCE"]
    macros.append("-DMAVCG_TILES_PERMITTED=tiles_here")
    program = Path(__file__).parent / "programs/hidden.c"
    command = ["gcc", "-std=gnu11", *macros, f"-I{folder}", f"-I{SOURCES}", str(program), "-o", str(folder / "hidden")]
    run_tool(command, "building hidden.c")

    def ask(questions: list[tuple[Core, Words]], refused: bool) -> tuple[list[tuple[int, int]], int]:
        text = "".join(f"{identity_of(c)} {c.name} {' '.join(f'{w:x}' for w in words)}\n" for c, words in questions)
        command = [str(folder / "hidden"), *["refused"] * refused]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        *pairs, (asked,) = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        return [(pair[0], pair[1]) for pair in pairs], asked

    return ask
