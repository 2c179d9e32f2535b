"""pyproject.toml against the folders: a package or a data file that it misses would be missing from the wheel only."""

import os
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PARTS = ("kernels", "passes", "runtime", "profiles")
# What a package folder may hold beside Python: files that package-data must name.
LEFT_OUT = {".pyc", ".pyi"}


def setuptools_table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    return table


def folder_of(package: str) -> Path:
    """The package's folder by way of package-dir, as setuptools finds it."""
    places = setuptools_table()["package-dir"]
    stem = package
    rest: list[str] = []
    while stem not in places:
        stem, _, last = stem.rpartition(".")
        rest.insert(0, last)
    return ROOT.joinpath(places[stem], *rest)


def packages_on_disk() -> set[str]:
    packages = set()
    for top in ("mavcg", *PARTS):
        prefix = top if top == "mavcg" else f"mavcg.{top}"
        for folder, below, names in os.walk(ROOT / top):  # links are not followed: each part is walked as itself
            below[:] = [name for name in below if name != "__pycache__"]
            if any(name.endswith(".py") for name in names):
                packages.add(".".join([prefix, *Path(folder).relative_to(ROOT / top).parts]))
    return packages


def test_packages_are_those_on_disk() -> None:
    assert set(setuptools_table()["packages"]) == packages_on_disk()


def test_every_package_has_its_init() -> None:
    missing = [package for package in packages_on_disk() if not (folder_of(package) / "__init__.py").is_file()]

    assert missing == []


def test_every_data_file_is_named() -> None:
    """Every file below a package that is not Python matches a pattern of the package that holds it."""
    data = setuptools_table()["package-data"]
    packages = packages_on_disk()
    unnamed = []
    for top in ("mavcg", *PARTS):
        prefix = top if top == "mavcg" else f"mavcg.{top}"
        for folder, below, names in os.walk(ROOT / top):
            below[:] = [name for name in below if name != "__pycache__"]
            for name in names:
                path = Path(folder) / name
                if path.suffix == ".py" or path.suffix in LEFT_OUT or path.is_symlink():
                    continue
                package, inner = owner(path, ROOT / top, prefix, packages)
                if not any(matches(inner, pattern) for pattern in data.get(package, [])):
                    unnamed.append(str(path.relative_to(ROOT)))

    assert unnamed == []


def owner(path: Path, top: Path, prefix: str, packages: set[str]) -> tuple[str, str]:
    """The innermost package that holds a file, and the file's path within it."""
    parts = path.relative_to(top).parts
    for count in range(len(parts) - 1, -1, -1):
        package = ".".join([prefix, *parts[:count]])
        if package in packages:
            return package, "/".join(parts[count:])
    return prefix, "/".join(parts)


def matches(inner: str, pattern: str) -> bool:
    """Whether a pattern of package-data names the file: as setuptools, * stays within one folder."""
    if pattern.startswith("**/"):
        return fnmatch(inner.rsplit("/", 1)[-1], pattern[3:])
    return inner.count("/") == pattern.count("/") and fnmatch(inner, pattern)


def test_every_pattern_names_a_file() -> None:
    for package, patterns in setuptools_table()["package-data"].items():
        for pattern in patterns:
            assert list(folder_of(package).glob(pattern)), f"{package}: {pattern}"


def test_parts_are_linked_by_relative_links() -> None:
    for part in PARTS:
        link = ROOT / "mavcg" / part
        assert link.is_symlink() and os.readlink(link) == f"../{part}", part
        assert (link / "__init__.py").samefile(ROOT / part / "__init__.py")


def test_package_dir_and_links_agree() -> None:
    assert setuptools_table()["package-dir"] == {"mavcg": "mavcg", **{f"mavcg.{part}": part for part in PARTS}}


def test_version_and_script() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["scripts"] == {"mavcg": "mavcg.cli:main"}
    assert project["requires-python"] == ">=3.11"
