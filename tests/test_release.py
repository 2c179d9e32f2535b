"""A release: archives without what the machine added, refused trees, and the whole of it in a fresh clone."""

import gzip
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from scripts import release
from scripts.release import NAMESPACE, SUMS, make_release, steady_archive, steady_wheel

EPOCH = 1_700_000_000


def archive(order: list[str], mtime: int, owner: str, mode: int) -> bytes:
    """A .tar.gz of some files, as a machine with this owner, time and umask writes it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in order:
            member = tarfile.TarInfo(name)
            member.mtime, member.uname, member.uid, member.mode = mtime, owner, mtime % 1000, mode
            content = name.encode() * 3
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_an_archive_does_not_tell_of_the_machine_that_made_it() -> None:
    here = archive(["p/b.py", "p/a.py"], 1_600_000_001, "anna", 0o600)
    there = archive(["p/a.py", "p/b.py"], 1_650_000_002, "otto", 0o664)

    assert here != there
    assert steady_archive(here, EPOCH) == steady_archive(there, EPOCH)


def test_an_archive_keeps_names_contents_links_and_what_runs() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        runs, link = tarfile.TarInfo("p/setup.sh"), tarfile.TarInfo("p/link")
        runs.mode, runs.size = 0o700, 4
        link.type, link.linkname = tarfile.SYMTYPE, "../kernels"
        tar.addfile(runs, io.BytesIO(b"true"))
        tar.addfile(link)
    steady = steady_archive(packed.getvalue(), EPOCH)

    with tarfile.open(fileobj=io.BytesIO(steady)) as tar:
        link, runs = tar.getmembers()
        content = tar.extractfile(runs)
        assert content is not None
        assert (content.read(), oct(runs.mode), runs.mtime, runs.uname) == (b"true", "0o755", EPOCH, "root")
        assert (link.type, link.linkname) == (tarfile.SYMTYPE, "../kernels")
    assert int.from_bytes(steady[4:8], "little") == EPOCH  # RFC 1952: MTIME
    assert gzip.decompress(steady)


def wheel(moment: tuple[int, int, int, int, int, int], mode: int) -> bytes:
    """A .whl of two files, as a machine with this clock and umask writes it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        for name, runs in (("p/a.py", 0), ("p/tool", 0o100)):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode | runs) << 16
            files.writestr(entry, name * 3)
    return packed.getvalue()


def test_a_wheel_does_not_tell_of_the_machine_that_made_it() -> None:
    here, there = wheel((2020, 1, 2, 3, 4, 6), 0o600), wheel((2021, 1, 2, 3, 4, 8), 0o664)

    assert here != there
    assert steady_wheel(here, EPOCH) == steady_wheel(there, EPOCH)
    with zipfile.ZipFile(io.BytesIO(steady_wheel(here, EPOCH))) as steady:
        kept = [(each.filename, each.date_time, oct(each.external_attr >> 16)) for each in steady.infolist()]
        assert kept == [
            ("p/a.py", (2023, 11, 14, 22, 13, 20), "0o100644"),
            ("p/tool", (2023, 11, 14, 22, 13, 20), "0o100755"),
        ]
        assert steady.read("p/a.py") == b"p/a.pyp/a.pyp/a.py"


def test_a_tree_with_changes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.py").write_text("x = 1\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)

    with pytest.raises(MavcgError, match="not committed"):
        make_release(tmp_path / "dist", [], None)
    assert not (tmp_path / "dist").exists()


def test_an_interpreter_that_is_not_there_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="no interpreter python9.9; name one"):
        make_release(tmp_path / "dist", ["python9.9"], None)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not here")
def test_a_release_of_a_fresh_clone_as_its_page_says(tmp_path: Path) -> None:
    """docs/releasing.md to the letter: made, tried, signed; sums and signature checked by its tools."""
    clone, key = tmp_path / "clone", tmp_path / "key"
    subprocess.run(["git", "clone", "-q", str(release.ROOT), str(clone)], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    out = tmp_path / "dist"
    command = [
        sys.executable,
        "-m",
        "scripts.release",
        "--out",
        str(out),
        "--key",
        str(key),
        "--python",
        sys.executable,
    ]
    subprocess.run(command, cwd=clone, check=True)

    kinds = sorted("".join(path.suffixes[-2:]) for path in out.iterdir())
    assert len(kinds) == 5 and ".cdx.json" in kinds, kinds
    subprocess.run(["sha256sum", "--quiet", "-c", SUMS], cwd=out, check=True)
    (tmp_path / "signers").write_text(f"release@example.org {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "release@example.org"]
    verify += ["-n", NAMESPACE, "-s", str(out / f"{SUMS}.sig")]
    subprocess.run(verify, input=(out / SUMS).read_bytes(), check=True, capture_output=True)
    wheel = next(out.glob("*.whl"))
    assert wheel.name in (out / SUMS).read_text()
