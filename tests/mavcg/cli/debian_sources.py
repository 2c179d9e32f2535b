"""Source packages of Debian, by apt-get and the archives that this machine's apt is set up with; kept in the cache."""

import re
import shutil
import subprocess
from pathlib import Path

from mavcg.runtime.code_cache import cache_folder

_SECONDS = 120


def source_tarball(package: str) -> Path | str:
    """The upstream tarball of a Debian source package; why it cannot be had, where it cannot.

    apt's own lists and settings stay as they are: the lists of sources, some 10 MB, are read into a folder beside it.
    """
    kept = cache_folder() / "test-sources"
    if found := sorted(kept.glob(f"{package}_*.orig.tar.*")):
        return found[-1]
    if shutil.which("apt-get") is None:
        return "needs apt-get"
    kept.mkdir(parents=True, exist_ok=True)
    apt = kept / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial", "sources"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    if not _write_archives(apt / "sources"):
        return "apt has no archives from which sources can be had"
    options = {
        "Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": apt / "sources", "Dir::State": apt / "state",
        "Dir::Cache": apt / "cache", "APT::Sandbox::User": "",
    }  # fmt: skip
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    try:
        for words in (["update"], ["source", "--download-only", package]):
            done = subprocess.run([*command, *words], cwd=kept, capture_output=True, text=True, timeout=_SECONDS)
            if done.returncode:
                lines = done.stderr.strip().splitlines() or ["?"]
                return f"apt-get {words[0]}: {lines[-1]}"
    except subprocess.TimeoutExpired:
        return f"apt-get took more than {_SECONDS} s"
    finally:
        shutil.rmtree(apt)
    return max(kept.glob(f"{package}_*.orig.tar.*"), default=f"apt-get source {package} brought no .orig.tar")


def _write_archives(folder: Path) -> bool:
    """This machine's archives as archives of sources; False where it has none."""
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        (folder / path.name).write_text(re.sub(r"^Types:.*$", "Types: deb-src", path.read_text(), flags=re.M))
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list")):
        if path.is_file():
            lines = re.findall(r"^deb .*$", path.read_text(), re.M)
            (folder / f"{path.stem}.list").write_text("".join(f"deb-src {line[4:]}\n" for line in lines))
    return any(path.stat().st_size for path in folder.iterdir())
