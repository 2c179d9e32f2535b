"""The build file of OSS-Fuzz: run with stand-ins for its tools, every target and corpus lands in $OUT."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from fuzz.targets import NAMES

ROOT = Path(__file__).parents[2]
STAND_INS = {
    "pip3": 'echo "$@" >> "$OUT/../pip"',
    "compile_python_fuzzer": 'cp "$1" "$OUT/$(basename "$1" .py)"',
    "zip": 'python3 -m zipfile -c "$2" "${@:3}"',
}


@pytest.mark.long
def test_all_targets_and_corpora_are_built(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, body in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash -eu\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "mavcg").symlink_to(ROOT)
    environment = {"SRC": str(tmp_path), "OUT": str(out), "SANITIZER": "none"}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(ROOT / "fuzz/oss_fuzz/build.sh")],
        capture_output=True,
        text=True,
        env=dict(os.environ) | environment | {"PATH": path},
    )
    assert done.returncode == 0, done.stderr
    for name in NAMES:
        stub = (out / name).read_text()
        compile(stub, name, "exec")
        assert f'main(["{name}", *sys.argv[1:]])' in stub
    for folder in (ROOT / "fuzz/corpus").iterdir():
        with zipfile.ZipFile(out / f"{folder.name}_seed_corpus.zip") as corpus:
            assert set(corpus.namelist()) == {path.name for path in folder.iterdir()}
    assert (tmp_path / "pip").read_text().startswith("install .[")
