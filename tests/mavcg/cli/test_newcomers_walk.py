"""A newcomer's walk, to the letter: untar lz4, a five-line mavcg.toml, two commands, the library loaded and used."""

import shutil
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from bench.debian import source_tarball
from mavcg.objects.elf import exported_symbols

FIVE_LINES = """\
profile.build = ["make", "-s", "lz4"]
profile.command = ["./lz4", "-b1", "-i1"]
build.sources = ["lib/*.c"]
build.board = "host"
build.output = "liblz4.so"
"""
MINUTES = 4
# Compresses texts, noise and runs at several levels, prints what comes out, and checks that it can be read back.
USE = """\
import ctypes, hashlib, random, sys
lz4 = ctypes.CDLL(sys.argv[1])
random.seed(4)
words = [random.randbytes(random.randrange(1, 12)) for _ in range(300)]
texts = [b"".join(random.choices(words, k=k)) for k in (0, 1, 30, 3000, 60000)]
for text in [*texts, random.randbytes(70000), bytes(200000), bytes(range(256)) * 700]:
    room = lz4.LZ4_compressBound(len(text))
    packed = ctypes.create_string_buffer(room)
    for name, more in (("LZ4_compress_default", ()), ("LZ4_compress_fast", (9,)), ("LZ4_compress_HC", (9,))):
        size = getattr(lz4, name)(text, packed, len(text), room, *more)
        back = ctypes.create_string_buffer(max(1, len(text)))
        assert size > 0 and lz4.LZ4_decompress_safe(packed, back, size, len(text)) == len(text)
        assert back.raw[:len(text)] == text
        print(name, size, hashlib.sha256(packed.raw[:size]).hexdigest())
"""


@pytest.fixture(scope="module")
def lz4_sources() -> Path:
    """The tarball of lz4's sources."""
    tarball = source_tarball("lz4")
    if isinstance(tarball, str):
        pytest.skip(f"lz4's sources cannot be had: {tarball}")
    for tool in ("make", "cc"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    return tarball


@pytest.mark.long
def test_lz4_five_lines_two_commands(
    lz4_sources: Path, here: Path, perf: str, known_host: None, shell: Any, run_program: Any, monkeypatch: Any
) -> None:
    with tarfile.open(lz4_sources) as archive:
        archive.extractall(here, filter="data")
    (folder,) = here.iterdir()
    monkeypatch.chdir(folder)
    (folder / "mavcg.toml").write_text(FIVE_LINES)
    started = time.monotonic()

    done = shell("mavcg profile && mavcg build")

    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 60 * MINUTES
    assert "LZ4_decompress_safe" in done.stdout and "any other core" in done.stdout

    assert run_program("make", "-s", "-C", "lib", "liblz4").status == 0
    plain = next((folder / "lib").glob("liblz4.so.*")).resolve()
    assert exported_symbols(plain) <= exported_symbols(folder / "liblz4.so")
    assert shell("mavcg runtime").returncode == 0
    settings = {"LD_PRELOAD": str(folder / "libmavcg_rt.so")}
    right = run_program(sys.executable, "-c", USE, plain)
    used = run_program(sys.executable, "-c", USE, folder / "liblz4.so", MAVCG_TRACE="1", **settings)
    generic = run_program(sys.executable, "-c", USE, folder / "liblz4.so", MAVCG_CPU_MAP="*=generic", **settings)
    assert right.status == used.status == generic.status == 0, used.stderr
    assert len(right.stdout.splitlines()) == 24 and right.stdout == used.stdout == generic.stdout
    ran = {words[1]: words[2] for words in map(str.split, used.stderr.splitlines()) if words[:1] == ["mavcg:"]}
    assert ran["LZ4_decompress_safe"] != "generic"
