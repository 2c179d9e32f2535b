"""Make a release of the committed state in dist/: `make release`, or `python -m scripts.release`.

    python -m scripts.release                                        # wheel, source archive, their sums
    python -m scripts.release --python python3.11 --python python3.14   # tried in clean environments of these
    python -m scripts.release --key ~/.ssh/id_ed25519                # the sums signed

The wheel and the source archive are built twice, in different folders, time zones, umasks and orders of hashing, from
what git has of HEAD; a release whose builds differ in a byte is refused. Times in them are the commit's. With --python,
each interpreter gets an empty environment with the wheel in it and works through scripts/release_trial.py far from the
checkout; what was installed there is a bill of materials (CycloneDX 1.6). SHA256SUMS covers all files; `ssh-keygen -Y
verify` and `sha256sum -c` check it (docs/releasing.md).
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE = "mavcg-release"  # of ssh-keygen's signatures: one made for something else does not count
SUMS = "SHA256SUMS"
_FIRST_OF_ZIP = 315_532_800  # 1980-01-01
_UNIX = 3  # system that made an entry, whose modes are Unix's
# What must not matter: each build gets another of these, the mask of its files' modes among them.
VARIATIONS = (
    (0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"}),
    (0o077, {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "4242"}),
)


def make_release(out: Path, pythons: Sequence[str], key: Path | None) -> list[Path]:
    """Write the files of a release into a folder and return them.

    Raises: MavcgError where the checkout has changes that are not committed, the builds differ, a trial fails or the
    key does not sign.
    """
    interpreters = [_interpreter(python) for python in pythons]
    if _output_text(["git", "status", "--porcelain"]):
        raise MavcgError("release: the checkout has changes that are not committed; commit them or put them away")
    with tempfile.TemporaryDirectory(prefix="mavcg-release-") as scratch:
        builds = [_build(Path(scratch) / f"build-{n}", *variation) for n, variation in enumerate(VARIATIONS)]
        _check_equal(*builds)
        contents = {path.name: path.read_bytes() for path in builds[0]}
        wheel = next(path for path in builds[0] if path.suffix == ".whl")
        for python in interpreters:
            name, bill = _try_wheel(python, wheel, Path(scratch) / "trials" / Path(python).name)
            contents[name] = bill
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items()))
    contents[SUMS] = sums.encode()
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(out / name, content)
    files = [out / name for name in contents]
    return [*files, _sign(out / SUMS, key)] if key else files


def _interpreter(name: str) -> str:
    """Return the path of an interpreter that is named as in a shell; links stay, as a venv is known by them."""
    found = shutil.which(name)
    if found is None:
        raise MavcgError(f"release: there is no interpreter {name}; name one of those that are installed")
    return os.path.abspath(found)


def _build(folder: Path, umask: int, variation: Mapping[str, str]) -> list[Path]:
    """Build the wheel and the source archive of HEAD in a new folder; returns both files."""
    epoch = _output_text(["git", "log", "-1", "--format=%ct"])
    tree, out = folder / "tree", folder / "out"
    tree.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(_bytes_of(["git", "archive", "HEAD"]))) as archive:
        archive.extractall(tree, filter="tar")
    for path in (tree, *tree.rglob("*")):  # as a checkout under this mask has them
        if not path.is_symlink():
            path.chmod((0o777 if path.is_dir() or path.stat().st_mode & 0o100 else 0o666) & ~umask)
    environment = {**os.environ, **variation, "SOURCE_DATE_EPOCH": epoch}
    _run([sys.executable, "-m", "build", "--outdir", str(out), str(tree)], folder, environment, umask)
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    write_whole(source, steady_archive(source.read_bytes(), int(epoch)))
    write_whole(wheel, steady_wheel(wheel.read_bytes(), int(epoch)))
    return sorted(out.iterdir())


def steady_archive(packed: bytes, epoch: int) -> bytes:
    """Return a .tar.gz with the same files, in the order of their names, without what the machine added.

    Times are `epoch` (seconds since 1970), owners are root, modes 755 or 644; setuptools leaves these as it finds them.
    """
    unpacked = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as given,
        tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as steady,
    ):
        for member in sorted(given.getmembers(), key=lambda member: member.name):
            content = given.extractfile(member) if member.isfile() else None
            runs = member.isdir() or bool(member.mode & 0o100)
            plain = member.replace(
                mtime=epoch, uid=0, gid=0, uname="root", gname="root", mode=0o755 if runs else 0o644, deep=False
            )
            plain.pax_headers = {}
            steady.addfile(plain, content)
    return gzip.compress(unpacked.getvalue(), mtime=epoch)


def steady_wheel(packed: bytes, epoch: int) -> bytes:
    """Return a .whl with the same files in the same order, without what the machine added.

    Times are `epoch` (seconds since 1970; ZIP has them to two seconds, since 1980), modes 755 or 644.
    """
    moment = time.gmtime(max(epoch, _FIRST_OF_ZIP))[:6]
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as steady:
        for entry in given.infolist():
            plain = zipfile.ZipInfo(entry.filename, moment)
            runs = (entry.external_attr >> 16) & 0o100
            plain.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
            plain.compress_type, plain.create_system = zipfile.ZIP_DEFLATED, _UNIX
            steady.writestr(plain, given.read(entry))
    return made.getvalue()


def _check_equal(first: Sequence[Path], second: Sequence[Path]) -> None:
    if [path.name for path in first] != [path.name for path in second]:
        raise MavcgError(f"release: one build made {[p.name for p in first]}, the other {[p.name for p in second]}")
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise MavcgError(f"release: two builds of {one.name} differ; find what of the machine is in it")


def _try_wheel(python: str, wheel: Path, folder: Path) -> tuple[str, bytes]:
    """Install the wheel into an empty environment and work with it; returns the bill of materials, name and content."""
    print(f"release: trying {wheel.name} with {python}", file=sys.stderr, flush=True)
    away = folder / "away"  # the trial's folder: no checkout is above it
    away.mkdir(parents=True)
    _run([python, "-m", "venv", "--without-pip", str(folder / "env")], folder)
    inside = folder / "env" / "bin" / "python"
    _run([sys.executable, "-m", "pip", "--python", str(inside), "install", "-q", f"{wheel}[models,check]"], folder)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAVCG_"))}
    trial = (ROOT / "scripts" / "release_trial.py").read_text(encoding="utf-8")
    _run([str(inside), "-P", "-c", trial], away, clean)
    bill = folder / "bill.json"
    _run(
        [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", "-o", str(bill)]
        + ["--pyproject", str(ROOT / "pyproject.toml"), str(inside)],
        folder,
    )
    version = _output_text([str(inside), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    return f"{wheel.stem.split('-py3')[0]}-python{version}.cdx.json", bill.read_bytes()


def _sign(sums: Path, key: Path) -> Path:
    signature = sums.with_name(f"{SUMS}.sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask
    _run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums)], sums.parent)
    return signature


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, umask: int = 0o022
) -> None:
    try:
        done = subprocess.run(command, cwd=folder, env=environment, umask=umask, capture_output=True, text=True)
    except OSError as error:
        raise MavcgError(f"release: {command[0]} does not start ({error.strerror}); is it installed?") from error
    if done.returncode:
        raise MavcgError(
            f"release: {' '.join(command[:4])[:200]} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}"
        )


def _output_text(command: Sequence[str]) -> str:
    return _bytes_of(command).decode().strip()


def _bytes_of(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    if done.returncode:
        raise MavcgError(f"release: {' '.join(command[:2])} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 2 with one line of error where no release was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the files (default: dist)")
    parser.add_argument("--python", action="append", default=[], metavar="P", help="try it with this interpreter")
    parser.add_argument("--key", type=Path, metavar="FILE", help="private SSH key that signs the sums")
    given = parser.parse_args(arguments)
    try:
        files = make_release(given.out, given.python, given.key)
    except MavcgError as error:
        print(error, file=sys.stderr)
        return 2
    for path in files:
        print(path)
    if not given.key:
        print("release: the sums are not signed; --key FILE signs them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
