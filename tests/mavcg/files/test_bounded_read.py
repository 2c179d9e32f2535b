"""Files without an end are read up to a limit, by every verb that reads them whole."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mavcg.files.bounded_read import read_bounded

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, MIB])
def test_a_file_within_the_limit(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (size // 256) or b"x" * size)
    assert read_bounded(path, MIB) == path.read_bytes()


def test_what_has_no_size_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "fifo"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"x" * 70_000))
    writer.start()
    assert read_bounded(pipe, MIB) == b"x" * 70_000
    writer.join()
    assert read_bounded(Path(os.devnull), MIB) == b""


@pytest.mark.parametrize("path", ["/dev/zero", "sparse"])
def test_more_is_refused_before_it_is_read(here: Path, path: str) -> None:
    if path == "sparse":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(OSError, match="it has more than 1 MiB") as raised:
        read_bounded(Path(path), MIB)
    assert raised.value.errno == errno.EFBIG and raised.value.filename == path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("net.onnx", "build net.onnx --board rk3588 -o libnet.so"),
        ("net.onnx", "estimate net.onnx --board rk3588"),
        ("net.tflite", "estimate net.tflite --board rk3588"),
        ("net.prototxt", "estimate net.prototxt --board rk3588"),
        ("code.s", "tune-asm code.s --core cortex-a55 -o tuned.s"),
        ("code.ll", "build --ir code.ll --hot f --cores cortex-a55 -o libcode.so"),
        ("core.toml", "explore alexnet --space core.toml -o points.sqlite"),
        ("plans.txt", "plan --run-ir plans.txt"),
        ("net.elf", "accel disassemble net.elf"),
    ],
)
def test_every_verb_refuses_a_file_without_an_end(mavcg: Any, here: Path, name: str, words: str) -> None:
    with open(name, "wb") as file:
        file.truncate(1 << 40)  # a terabyte that takes no room
    done = mavcg(*words.split())
    said = " ".join(done.stderr.split())
    assert done.status == 2 and f"{name}: " in said and "it has more than" in said and "Traceback" not in said, said
    assert [path.name for path in here.iterdir()] == [name]
