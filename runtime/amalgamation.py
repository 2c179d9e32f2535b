"""Join the C files of a unit into one translation unit, in which all functions except the exported ones are static.

`python -m mavcg.runtime.amalgamation FOLDER` writes every unit as FOLDER/<unit>.c.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent / "csrc"

_INCLUDE = re.compile(r'#include "([^"]+)".*')
_PUSH = "#if defined(__clang__)\n#pragma clang attribute push(__attribute__((minsize)), apply_to = function)\n#endif\n"
_POP = "#if defined(__clang__)\n#pragma clang attribute pop\n#endif\n"


@dataclass(frozen=True)
class Unit:
    """The C files of a translation unit, in an order in which every call follows its declaration.

    small: files whose functions run once, compiled for size. fast: the other files, after them. defines: macros of the
    unit, "NAME VALUE".
    """

    fast: tuple[str, ...]
    small: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


_PLATFORM = ("platform_linux.c", "platform_macos.c")
_FACTS = (
    "text.c",
    "x86_features.c",
    "tile_permission.c",
    "needs.c",
    "names.c",
    "x86.c",
    "cpu_map.c",
    "cpuinfo.c",
    "sysfs.c",
    "table.c",
)
_SELECTOR = (
    *_PLATFORM,
    "process_linux.c",
    "process_macos.c",
    *_FACTS,
    "uniform.c",
    "trace.c",
    "settings.c",
    "start.c",
)
_SHARED = "MAVCG_SHARED_SELECTOR 1"
_LINKED = "MAVCG_LINKED_SELECTOR 1"
_LOADED = "MAVCG_LOADED_SELECTOR 1"
_SMALL = "MAVCG_SMALL_SELECTOR 1"

UNITS: Mapping[str, Unit] = {
    # The selector of one core set.
    "runtime": Unit(("select.c", "entries.c"), ("set.c", *_SELECTOR)),
    "small": Unit(("entries.c",), ("set.c", *_SELECTOR, "select.c"), (_SMALL,)),
    # The selector of all core sets of a link, and one set's part of it.
    "linked_selector": Unit(("select.c", "shared_selector.c"), _SELECTOR, (_SHARED, _LINKED)),
    "linked_set": Unit(("set.c", "entries.c"), defines=(_LOADED, _LINKED)),
    "small_selector": Unit(("shared_selector.c",), (*_SELECTOR, "select.c"), (_SHARED, _LINKED, _SMALL)),
    "small_set": Unit(("set.c", "entries.c"), defines=(_LOADED, _LINKED, _SMALL)),
    # libmavcg_rt.so, and a library's part of it.
    "shared_selector": Unit(("select.c", "shared_selector.c"), _SELECTOR, (_SHARED,)),
    "shared_set": Unit(("set.c", "entries.c"), defines=(_LOADED,)),
    # The detection library of binding.py, which reads recorded files of both architectures.
    "detect": Unit(("detect.c", *_PLATFORM, *_FACTS), defines=("MAVCG_ARM_SOURCES 1", "MAVCG_X86_SOURCES 1")),
    # The engine of one model.
    "engine": Unit(
        (
            "x86_features.c",
            "base_needs.c",
            "engine_machine.c",
            "engine_affinity.c",
            "engine_system.c",
            "engine_wait.c",
            "engine_memory.c",
            "engine_library.c",
            "engine_process.c",
            "engine_turns.c",
            "engine_wake.c",
            "engine_chunk.c",
            "engine_options.c",
            "engine_paging.c",
            "engine_pool.c",
            "engine_shape.c",
            "engine_counted.c",
            "engine_state.c",
            "engine_state_rows.c",
            "engine_context.c",
            "engine_run.c",
            "engine_stage.c",
            "engine_api.c",
        )
    ),
    # A BLAS library's routines.
    "blas": Unit(
        (
            "x86_features.c",
            "base_needs.c",
            "engine_machine.c",
            "engine_wait.c",
            "engine_chunk.c",
            "blas_placement.c",
            "blas_team.c",
            "blas_memory.c",
            "blas_transpose.c",
            "blas_half.c",
            "blas_pack.c",
            "blas_f16.c",
            "blas_block.c",
            "blas_product.c",
            "blas_vector.c",
            "blas_dots.c",
            "blas_errors.c",
            "blas_next.c",
            "blas_entries.c",
        )
    ),
    # The entries of a library of subgraphs for other runtimes.
    "drop_in": Unit(
        (
            "numbers.c",
            "part_contexts.c",
            "ort_kernel.c",
            "ort_register.c",
            "blake2b.c",
            "ort_model.c",
            "ort_graph.c",
            "ort_provider.c",
            "tflite_file.c",
            "tflite_kernel.c",
            "tflite_delegate.c",
        )
    ),
    # The sizes of one model in a library.
    "sizes": Unit(("engine_sizes.c",)),
    # What the networks of one application have in common.
    "application": Unit(
        (
            "engine_machine.c",
            "engine_affinity.c",
            "engine_memory.c",
            "engine_library.c",
            "engine_turns.c",
            "pipeline_stages.c",
            "pipeline.c",
            "service_accelerators.c",
            "service.c",
            "application_service.c",
            "application.c",
        )
    ),
}


@cache
def unit_text(name: str) -> str:
    """Return the text of a unit: each file of csrc/ once, in the place where it is first included.

    Generated headers stay included, once; system headers stay as they are.
    Raises: KeyError for a name that is not in UNITS.
    """
    unit = UNITS[name]
    joined: set[str] = set()
    small = [_PUSH, *(_file_text(file, joined) for file in unit.small), _POP] if unit.small else []
    return "".join(
        [
            f"/* The unit {name} of mavcg's C, made by mavcg.runtime.amalgamation. */\n#define MAVCG_AMALGAMATION 1\n",
            *(f"#define {define}\n" for define in unit.defines),
            *small,
            *(_file_text(file, joined) for file in unit.fast),
        ]
    )


def unit_files(name: str) -> tuple[str, ...]:
    """Return the names of all files of csrc/ in a unit, including headers, in alphabetical order."""
    return tuple(sorted(set(re.findall(r'^#line 1 "(.+)"$', unit_text(name), re.MULTILINE))))


def write_unit(name: str, folder: Path) -> Path:
    """Write a unit as folder/<name>.c and return its path.

    Raises: KeyError for an unknown name; OSError if it cannot be written.
    """
    path = folder / f"{name}.c"
    path.write_text(unit_text(name), encoding="utf-8")
    return path


def _file_text(file: str, joined: set[str]) -> str:
    """Return a file's text, with the headers of csrc/ that it includes first in place of the #include lines."""
    joined.add(file)
    lines = [f'#line 1 "{file}"']
    for number, line in enumerate((SOURCES / file).read_text(encoding="utf-8").splitlines(), 1):
        match = _INCLUDE.fullmatch(line)
        if match is None:
            lines.append(line)
        elif match[1] in joined:
            lines.append("")
        elif not (SOURCES / match[1]).is_file():
            joined.add(match[1])
            lines.append(line)
        else:
            lines += [_file_text(match[1], joined).removesuffix("\n"), f'#line {number + 1} "{file}"']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for each in UNITS:
        write_unit(each, Path(sys.argv[1]))
