"""Packs a model library as an Android archive (AAR), from which Gradle takes header and library, for C++ and Java.

Sources: "Create an Android library", section "Anatomy of an AAR file" (developer.android.com); google.github.io/prefab,
"Package structure"; the metadata classes of prefab's repository (PackageMetadataV1, ModuleMetadataV1,
AndroidAbiMetadataV1).
"""

import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.disk_space import with_room
from mavcg.files.whole_file import whole
from mavcg.objects.library import API_LEVEL
from mavcg.runtime.companions import HEADER_SUFFIXES, library_stem
from mavcg.runtime.model_header import api_name
from mavcg.toolchain.target import Target

ABIS = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}  # Android's names
# All versions of prefab read schema 1; schema 2 only adds a field for static libraries.
_SCHEMA = 1
_NDK = 21  # prefab requires an NDK version but does not check it (Android.checkIfUsable); no NDK was used
_EPOCH = (1980, 1, 1, 0, 0, 0)  # earliest time that a ZIP file can store
_NAME = re.compile(r"lib[A-Za-z0-9_][A-Za-z0-9_.+-]*\.so", re.ASCII)
_COPY_BYTES = 1 << 20


def check_aar(aar: Path, target: Target, output: Path) -> None:
    """Check that an archive can be written. Raises: MavcgError naming the option, its value and the remedy."""
    if target.system != "linux-android":
        raise MavcgError(
            f"--aar {aar}: is for Android, and the target is {target.zig_name}; add "
            f"--target {target.arch}-linux-android"
        )
    if aar.suffix.lower() != ".aar":
        raise MavcgError(f"--aar {aar}: an Android archive is written; name one, such as {aar.stem or 'model'}.aar")
    if aar.is_dir() or not aar.resolve().parent.is_dir():
        raise MavcgError(f"--aar {aar}: is a folder, or its folder does not exist; name another file")
    if not _NAME.fullmatch(output.name):
        raise MavcgError(
            f"-o {output}: Android installs libraries named lib*.so, and Gradle's modules have letters, digits and "
            "_.+- in their names; name another output"
        )


def write_aar(aar: Path, library: Path, companions: Sequence[Path], version: str, target: Target) -> Path:
    """Write an Android archive with one prefab module, and return its path.

    The module has the library's name: libresnet.so is resnet::resnet in CMake. Equal inputs give equal bytes, so
    nothing is compressed and all files have the same time. companions: the library's, of which the headers are packed.
    version: numbers with dots. Raises: MavcgError if it cannot be written.
    """
    abi, stem = ABIS[target.arch], library_stem(library)
    module = f"prefab/modules/{stem}"
    texts = {
        "AndroidManifest.xml": (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            '<manifest xmlns:android="http://schemas.android.com/apk/res/android"\n'
            f'    package="mavcg.model_{api_name(stem)}">\n'
            f'    <uses-sdk android:minSdkVersion="{API_LEVEL}" />\n'
            "</manifest>\n"
        ),
        "prefab/prefab.json": _json({"schema_version": _SCHEMA, "name": stem, "version": version, "dependencies": []}),
        f"{module}/module.json": _json({"export_libraries": [], "library_name": f"lib{stem}"}),
        f"{module}/libs/android.{abi}/abi.json": _json({"abi": abi, "api": API_LEVEL, "ndk": _NDK, "stl": "none"}),
    }
    # jni: for applications that load the library from Java; prefab: for those that link with it.
    files = {f"jni/{abi}/{library.name}": library, f"{module}/libs/android.{abi}/{library.name}": library}
    files |= {f"{module}/include/{path.name}": path for path in companions if path.suffix in HEADER_SUFFIXES}
    try:
        with whole(aar) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name, text in texts.items():
                archive.writestr(_entry(name), text)
            for name, path in sorted(files.items()):
                _copy(archive, name, path)
    except OSError as error:
        raise MavcgError(
            f"--aar {aar}: cannot be written ({with_room(error, aar)}); name another output, or make room"
        ) from error
    return aar


def _json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=4) + "\n"


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a ZIP entry that is the same on every machine: fixed time, no owner, rw-r--r--."""
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3  # Unix, whose modes the next field holds
    entry.external_attr = 0o100644 << 16
    return entry


def _copy(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    entry = _entry(name)
    entry.file_size = path.stat().st_size  # decides whether the entry needs 64-bit sizes
    with path.open("rb") as source, archive.open(entry, "w") as out:
        while block := source.read(_COPY_BYTES):
            out.write(block)
