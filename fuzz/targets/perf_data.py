"""perf.data, and profiles packed by gzip, xz or zstd. What perf would print of a perf.data is the input's end.

The input: a file as `mavcg profile --import` takes it. In place of perf, which reads each in a process of its own, the
bytes after the header are the text that it prints.
"""

import gzip
import lzma
import random
from collections.abc import Callable

from fuzz.mutation import mutator
from fuzz.mutation.lines import changed_lines
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.program.profiling",)
_HEADER_BYTES = 104
_MAGICS = (b"PERFILE2", b"2ELIFREP")
_WORDS = "cycles:u: [000] app ( ) [unknown] +0x10 ffffffffffffffff (inlined) # :"


def _change(source: random.Random, data: bytes) -> bytes:
    from bench.fuzz_mutations import words

    if data.startswith(b"\x1f\x8b\x08") or data.startswith(b"\xfd7zXZ\0"):
        compress: Callable[[bytes], bytes] = gzip.compress if data[0] == 0x1F else lzma.compress
        try:
            text = gzip.decompress(data) if data[0] == 0x1F else lzma.decompress(data)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise ValueError(str(error)) from None
        return compress(changed_lines(source, text.decode("latin-1"), _WORDS.split()).encode("latin-1", "replace"))
    head, text = data[:_HEADER_BYTES], data[_HEADER_BYTES:]
    if source.random() < 0.3:
        return words(source, head) + text
    changed = changed_lines(source, text.decode("utf-8", "surrogateescape"), _WORDS.split())
    return head + changed.encode("utf-8", "surrogateescape")


mutate = mutator(_change)


def run(data: bytes) -> None:
    """Read the profile and rank its functions."""
    import subprocess
    from unittest.mock import patch

    from mavcg.program.profiling.load import load_profile
    from mavcg.program.profiling.ranking import rank

    def perf(command, *, stdout, **_):  # type: ignore[no-untyped-def]
        assert command[:2] == ["perf", "script"]
        os_write_all(stdout, data[_HEADER_BYTES:])
        absent = b"Cannot print 'cpu' field" if data[16:17] == b"\1" and "cpu" in command[-3] else b""
        return subprocess.CompletedProcess(command, int(bool(absent)), stderr=absent)

    path = file_with(data, "perf.data")
    with patch("mavcg.program.profiling.perf_data.subprocess.run", perf):
        call_target(lambda: rank(load_profile(path)))


def os_write_all(descriptor: int, content: bytes) -> None:
    """Write all bytes to an open file."""
    with open(descriptor, "wb", closefd=False) as out:
        out.write(content)
