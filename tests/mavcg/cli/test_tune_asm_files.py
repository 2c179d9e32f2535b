"""`mavcg tune-asm --check` on five files of x265 and dav1d, 60 functions: it ends, and goes on where it ended."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.debian import source_tarball

pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")
pytestmark = pytest.mark.long

CONFIG = "#define ARCH_AARCH64 1\n#define ARCH_ARM 0\n#define PRIVATE_PREFIX dav1d_\n#define PREFIX 0\n"
FILES = {
    "x265": {"source/common/aarch64/pixel-util.S": 10, "source/common/aarch64/sad-a.S": 8},
    "dav1d": {"src/arm/64/cdef.S": 19, "src/arm/64/loopfilter.S": 16, "src/arm/64/msac.S": 7},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, tuple[int, list[str]]]]:
    """Each file with the number of its functions and the options of the preprocessor."""
    found: dict[Path, tuple[int, list[str]]] = {}
    for package, names in FILES.items():
        tarball = source_tarball(package)
        if isinstance(tarball, str):
            pytest.skip(f"{package}'s sources cannot be had: {tarball}")
        folder = tmp_path_factory.mktemp(package)
        with tarfile.open(tarball) as archive:
            archive.extractall(folder, filter="data")
        [root] = folder.iterdir()
        (root / "config.h").write_text(CONFIG)
        x265 = [f"-I{root}/source/common/aarch64", "-DX265_NS=x265", "-DBIT_DEPTH=8"]
        options = x265 if package == "x265" else [f"-I{root}", f"-I{root}/src"]
        found |= {root / name: (count, options) for name, count in names.items()}
    yield found


def test_five_files_end_and_what_is_decided_is_kept(
    mavcg: Any, files: dict[Path, tuple[int, list[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    checked = 0
    for path, (count, options) in files.items():
        words = ("tune-asm", path, "--core", "cortex-a55", "--check", *options, "--json")
        first, again = mavcg(*words), mavcg(*words)
        assert (first.status, again.status) == (0, 0), first.stderr
        assert first.stdout == again.stdout
        functions = json.loads(first.stdout)["functions"]
        changed = [function for function in functions if function["checked"] is not None]
        assert len(functions) == count and len(changed) >= count // 2
        assert all(function["checked"] in ("some", "all") or "not decided" in function["kept"] for function in changed)
        for number, function in enumerate(changed, 1):
            line = f"checking {function['name']}, {number} of {len(changed)}"
            assert line in first.stderr and f"{line}, decided by an earlier check" in again.stderr
        assert "by an earlier check" not in first.stderr
        checked += len(changed)
    assert checked > 50
