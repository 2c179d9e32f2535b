"""Code growth of multi-versioning for six ARM cores, counted in the linked libraries: `python -m bench.growth`."""

import tempfile
from pathlib import Path
from typing import Any

from bench.programs import PROGRAMS, Program, build
from bench.record import facts, write
from mavcg.elf import loaded_bytes, notes
from mavcg.toolchain import PLAIN_CODE_FLAGS, run_zig

# The cores of the paper's multi-versioned TFLite (Park 2020, chapter 4.2), whose code grew by 3.66 %.
CORES = "cortex-a53,cortex-a55,cortex-a75,exynos-m2,exynos-m3,exynos-m4"
TARGET = "aarch64-linux-gnu.2.17"


def count(program: Program, folder: Path) -> dict[str, Any]:
    """Bytes of one program's library, and where they come from."""
    out = folder / f"lib{program.name}.so"
    report = build(program, CORES, out, "--target", TARGET)
    modules = [note for note in notes(out) if "single_bytes" in note]
    added = sum(int(note["multi_bytes"]) - int(note["single_bytes"]) for note in modules) + report["runtime_bytes"]
    own = sum(_plain_bytes(program, source, folder) for source in program.sources)
    functions = report["functions"]
    versions = [version for function in functions for version in function["versions"]]
    return {
        "program": program.name,
        "what": program.what,
        "functions": len(functions),
        "versions": len(versions),
        "bodies": sum(version["shares_body_with"] is None for version in versions),
        "library_bytes": report["loaded_bytes"],
        "own_code_bytes": own,
        "added_bytes": added,
        "selector_bytes": report["runtime_bytes"],
        "growth_percent": report["growth_percent"],
        "growth_of_own_code_percent": round(100 * added / own, 2),
    }


def _plain_bytes(program: Program, source: Path, folder: Path) -> int:
    """Loaded bytes of one source's object without versions; -UNDEBUG: zig defines it beside -O3."""
    made = folder / f"{source.stem}.plain.o"
    tool = "cc" if source.suffix == ".c" else "c++"
    flags = ["-target", TARGET, *PLAIN_CODE_FLAGS, "-fPIC", *program.flags, "-UNDEBUG"]
    run_zig(tool, [*flags, "-c", str(source), "-o", str(made)], f"compiling {source.name}")
    return loaded_bytes(made)


def main() -> None:
    """Count, and write bench/results/growth.json."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [count(program, Path(folder)) for program in PROGRAMS if program.is_here]
    left_out = [program.name for program in PROGRAMS if not program.is_here]
    record = facts("counted", "bench.growth") | {"target": TARGET, "cores": CORES.split(","), "left_out": left_out}
    print(write("growth", record | {"rows": rows}))


if __name__ == "__main__":
    main()
