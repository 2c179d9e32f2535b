"""Code growth of multi-versioning for six Arm cores, counted in the linked libraries: `python -m bench.growth`.

`python -m bench.growth --app` counts an application of TFLite's size, which it downloads and compiles (20 minutes).
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.app_objects import FLAGS, PACKAGE, app_folder, archive_of
from bench.programs import PROGRAMS, Program, build
from bench.record import facts, write
from mavcg.objects.elf import loaded_bytes, notes
from mavcg.runtime.shared import build_shared_runtime
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

# The cores of the paper's multi-versioned TFLite (Park 2020, chapter 4.2), whose code grew by 3.66 %.
CORES = "cortex-a53,cortex-a55,cortex-a75,exynos-m2,exynos-m3,exynos-m4"
TARGET = "aarch64-linux-gnu.2.17"
# Of the application: the products of the commonest formats of weights, in which a token spends its time; and all.
HOT_SOURCES = ("ggml/src/ggml-cpu/arch/arm/quants.c", "ggml/src/ggml-cpu/vec.cpp")
HOT = {
    "six formats": ",".join(
        f"ggml_vec_dot_{kind}" for kind in ("q4_0_q8_0", "q8_0_q8_0", "q4_K_q8_K", "q6_K_q8_K", "f16", "f32")
    ),
    "all formats": "ggml_vec_dot_*",
}


def count(program: Program, folder: Path) -> dict[str, Any]:
    """Return the bytes of one program's library, and where they come from."""
    out = folder / f"lib{program.name}.so"
    report = build(program, CORES, out, "--target", TARGET)
    shared = build(program, CORES, folder / "shared.so", "--target", TARGET, "--runtime", "shared")
    own = sum(_plain_bytes(program, source, folder) for source in program.sources)
    return _row(program.name, program.what, out, report, own) | {
        "growth_with_shared_selector_percent": shared["growth_percent"],
        "own_selector_bytes_when_shared": shared["runtime_bytes"],
    }


def _row(name: str, what: str, out: Path, report: dict[str, Any], own: int) -> dict[str, Any]:
    modules = [note for note in notes(out) if "single_bytes" in note]
    added = sum(int(note["multi_bytes"]) - int(note["single_bytes"]) for note in modules) + report["runtime_bytes"]
    functions = report["functions"]
    versions = [version for function in functions for version in function["versions"]]
    return {
        "program": name,
        "what": what,
        "functions": len(functions),
        "versions": len(versions),
        "bodies": sum(version["shares_body_with"] is None and not version["dropped"] for version in versions),
        "library_bytes": report["loaded_bytes"],
        "own_code_bytes": own,
        "added_bytes": added,
        "selector_bytes": report["runtime_bytes"],
        "growth_percent": report["growth_percent"],
        "growth_of_own_code_percent": round(100 * added / own, 2),
    }


def _plain_bytes(program: Program, source: Path, folder: Path) -> int:
    """Return the loaded bytes of a source's object without versions.

    -UNDEBUG, because zig defines NDEBUG beside -O3.
    """
    made = folder / f"{source.stem}.plain.o"
    tool = "cc" if source.suffix == ".c" else "c++"
    flags = ["-target", TARGET, *PLAIN_CODE_FLAGS, "-fPIC", *program.flags, "-UNDEBUG"]
    run_zig(tool, [*flags, "-c", str(source), "-o", str(made)], f"compiling {source.name}")
    return loaded_bytes(made)


def count_app(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the application: its hot sources are built by mavcg and linked with all others."""
    sources = app_folder()
    rest, objects = archive_of(sources, HOT_SOURCES)
    whole = ("-Wl,--whole-archive", str(rest), "-Wl,--no-whole-archive")
    flags = tuple(f"-I{sources / flag[2:]}" if flag.startswith("-I") else flag for flag in FLAGS)
    rows = []
    for what, hot in HOT.items():
        program = Program(
            "llama.cpp", f"{PACKAGE}, dot products of {what}", tuple(sources / s for s in HOT_SOURCES), flags, hot
        )
        out = folder / "libapp.so"
        report = build(program, CORES, out, "--target", TARGET, *(f"--link-option={option}" for option in whole))
        plain = sum(int(note["single_bytes"]) for note in notes(out) if "single_bytes" in note)
        own = plain + sum(map(loaded_bytes, objects))
        rows.append(_row(program.name, program.what, out, report, own))
    return rows


def main(app: bool) -> None:
    """Count, and write bench/results/growth.json, or growth_app.json."""
    common = {"target": TARGET, "cores": CORES.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        if app:
            print(
                write("growth_app", facts("counted", "bench.growth --app") | common | {"rows": count_app(Path(folder))})
            )
            return
        rows = [count(program, Path(folder)) for program in PROGRAMS if program.is_here]
        shared = loaded_bytes(build_shared_runtime(parse_target(TARGET), Path(folder)))
    left_out = [program.name for program in PROGRAMS if not program.is_here]
    record = facts("counted", "bench.growth") | common | {"left_out": left_out, "shared_selector_bytes": shared}
    print(write("growth", record | {"rows": rows}))


if __name__ == "__main__":
    main("--app" in sys.argv[1:])
