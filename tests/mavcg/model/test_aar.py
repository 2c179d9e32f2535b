"""Android archives, read back as Gradle and prefab do."""

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mavcg.errors import MavcgError
from mavcg.model.aar import check_aar, write_aar
from mavcg.toolchain.target import parse_target

ANDROID = "{http://schemas.android.com/apk/res/android}"
ARM = parse_target("aarch64-linux-android")
BUILD = ("--cores", "cortex-a55", "--shape", "image=1x4x6x6", "--target", "aarch64-linux-android")


def test_what_gradle_and_prefab_read(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    ended = mavcg("build", tiny_onnx, *BUILD, "-o", "libtiny-net.so", "--aar", "tiny.aar", "--json")
    assert ended.status == 0, ended.stderr
    assert "tiny.aar" in json.loads(ended.stdout)["files"]

    with zipfile.ZipFile("tiny.aar") as archive:
        assert archive.testzip() is None
        content = {name: archive.read(name) for name in archive.namelist()}
        modes = {(entry.date_time, entry.external_attr >> 16, entry.compress_type) for entry in archive.infolist()}
    assert modes == {((1980, 1, 1, 0, 0, 0), 0o100644, zipfile.ZIP_STORED)}
    manifest = ElementTree.fromstring(content["AndroidManifest.xml"])
    assert re.fullmatch(r"[a-z]\w*(\.[a-z]\w*)+", manifest.attrib["package"])
    (sdk,) = manifest.findall("uses-sdk")
    assert sdk.attrib[f"{ANDROID}minSdkVersion"] == "21"

    package = json.loads(content["prefab/prefab.json"])
    assert package["schema_version"] == 1 and package["name"] == "tiny-net" and package["dependencies"] == []
    assert re.fullmatch(r"\d+(\.\d+){0,3}", package["version"])
    module = "prefab/modules/tiny-net"
    assert json.loads(content[f"{module}/module.json"]) == {"export_libraries": [], "library_name": "libtiny-net"}
    assert json.loads(content[f"{module}/libs/android.arm64-v8a/abi.json"]) == {
        "abi": "arm64-v8a",
        "api": 21,
        "ndk": 21,
        "stl": "none",
    }
    library = Path("libtiny-net.so").read_bytes()
    assert content[f"{module}/libs/android.arm64-v8a/libtiny-net.so"] == library
    assert content["jni/arm64-v8a/libtiny-net.so"] == library
    for header in ("tiny_net.h", "tiny_net.hpp"):
        assert content[f"{module}/include/{header}"] == Path(header).read_bytes()


@pytest.mark.long
def test_a_library_of_several_sizes(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    versions = []
    for batches in ("1,2", "1,3"):
        options = ("--cores", "cortex-a55", "--shape", f"image={batches}x4x6x6", "--target", "aarch64-linux-android")
        ended = mavcg("build", tiny_onnx, *options, "-o", "libtiny-net.so", "--aar", "tiny.aar", "--json")
        assert ended.status == 0, ended.stderr
        assert "tiny.aar" in json.loads(ended.stdout)["files"]
        with zipfile.ZipFile("tiny.aar") as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        module = "prefab/modules/tiny-net"
        assert content[f"{module}/libs/android.arm64-v8a/libtiny-net.so"] == Path("libtiny-net.so").read_bytes()
        for header in ("tiny_net.h", "tiny_net.hpp"):
            assert content[f"{module}/include/{header}"] == Path(header).read_bytes()
        versions.append(json.loads(content["prefab/prefab.json"])["version"])
    assert versions[0] != versions[1]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], bytes]:
    library, header = tmp_path / "libint.so", tmp_path / "int.h"

    def write(name: str) -> bytes:
        library.write_bytes(bytes(3 << 20))
        header.write_text("/* 1 */\n")
        for path in (library, header):
            os.utime(path, (len(name) * 1e8, len(name) * 1e8))
            path.chmod(0o600 if len(name) % 2 else 0o755)
        return write_aar(tmp_path / name, library, [header], "0.1", ARM).read_bytes()

    return write


def test_the_same_inputs_give_the_same_bytes(written: Callable[[str], bytes]) -> None:
    assert written("a.aar") == written("bb.aar")


def test_a_package_is_no_keyword_of_java(written: Callable[[str], bytes], tmp_path: Path) -> None:
    written("a.aar")
    with zipfile.ZipFile(tmp_path / "a.aar") as archive:
        assert b'package="mavcg.model_int"' in archive.read("AndroidManifest.xml")


def test_a_disk_or_folder_that_takes_no_file(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"--aar /dev/full: cannot be written \(No space left"):
        library = tmp_path / "libm1.so"
        library.write_bytes(bytes(9))
        write_aar(Path("/dev/full"), library, [], "0.1", ARM)


@pytest.mark.parametrize(
    ("aar", "target", "output", "words"),
    [
        ("a.aar", "aarch64-linux-gnu.2.17", "libx.so", "--aar a.aar: is for Android.*--target aarch64-linux-android"),
        ("a.zip", "aarch64-linux-android", "libx.so", r"--aar a.zip: an Android archive is written; .*a\.aar"),
        ("no/a.aar", "aarch64-linux-android", "libx.so", "its folder does not exist"),
        ("a.aar", "aarch64-linux-android", "x.so", r"-o x\.so: Android installs libraries named lib\*\.so"),
        ("a.aar", "aarch64-linux-android", "libx y.so", r"name another output"),
    ],
)
def test_what_cannot_be_packed(here: Path, aar: str, target: str, output: str, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        check_aar(Path(aar), parse_target(target), Path(output))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*BUILD, "--partial", "--aar", "a.aar"), "--aar a.aar: packs whole models"),
        (("--cores", "cortex-a55", "--aar", "a.aar"), "--aar a.aar: is for Android"),
    ],
)
def test_refusals_leave_nothing(mavcg: Any, tiny_onnx: Path, here: Path, options: tuple[str, ...], words: str) -> None:
    ended = mavcg("build", tiny_onnx, *options)
    assert ended.status == 2 and words in ended.stderr
    assert list(here.iterdir()) == []


def test_a_program_is_no_model(mavcg: Any, here: Path) -> None:
    assert "--aar: is for models" in mavcg("build", "--source", "a.c", "--aar", "a.aar").stderr
    (here / "mavcg.toml").write_text('[[model]]\nfile = "m.onnx"\n')
    assert "--aar a.aar: packs one model" in mavcg("build", "--aar", "a.aar").stderr
