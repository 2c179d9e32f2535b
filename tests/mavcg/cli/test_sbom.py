"""Bills of materials of built libraries: valid CycloneDX, true, and the same for the same library."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mavcg import __version__
from mavcg.cli.app import run
from mavcg.cli.sbom import sbom
from mavcg.errors import MavcgError
from mavcg.runtime.amalgamation import SOURCES


@pytest.fixture(scope="module")
def folder(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program library, and a model library with its model."""
    made = tmp_path_factory.mktemp("sbom")
    (made / "a.c").write_text("int twice(int x) { return 2 * x; }\n")
    shutil.copy(tiny_onnx, made / "net.onnx")
    for words in (
        ("--source", str(made / "a.c"), "--hot", "twice", "-o", str(made / "libapp.so")),
        (str(made / "net.onnx"), "--target", "aarch64-linux-gnu", "-o", str(made / "libnet.so")),
    ):
        assert run(["build", *words, "--cores", "cortex-a55"]) == 0
    return made


def valid(document: dict[str, Any]) -> bool:
    """By the schema that the CycloneDX project publishes, as its own Python package has it."""
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    fault = JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(document))
    assert fault is None, fault
    return True


def named(document: dict[str, Any], name: str) -> dict[str, Any]:
    (part,) = [each for each in document["components"] if each["name"] == name]
    return dict(part)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["libapp.so", "libnet.so"])
def test_a_bill_is_valid_and_names_the_library(folder: Path, name: str, mavcg: Any) -> None:
    document = json.loads(mavcg("inspect", folder / name, "--sbom", "-").stdout)

    assert valid(document)
    assert document == sbom(folder / name)
    about = document["metadata"]["component"]
    assert about["name"] == name
    assert about["hashes"] == [{"alg": "SHA-256", "content": sha256(folder / name)}]
    tools = {each["name"]: each["version"] for each in document["metadata"]["tools"]["components"]}
    assert tools["mavcg"] == __version__ and set(tools) == {"mavcg", "llvmlite", "ziglang"} and all(tools.values())


def test_a_model_library_has_engine_selector_and_the_model(folder: Path) -> None:
    document = sbom(folder / "libnet.so")
    (model_hash,) = named(document, "net.onnx")["hashes"]
    engine = {each["name"]: each["hashes"][0]["content"] for each in named(document, "mavcg-engine")["components"]}
    selector = {each["name"] for each in named(document, "mavcg-selector")["components"]}

    assert model_hash["content"] == sha256(folder / "net.onnx")
    files = [
        *(p for p in SOURCES.glob("engine*") if p.name != "engine_sizes.c"),
        *SOURCES.glob("base_needs.*"),
        SOURCES / "application_api.h",
        SOURCES / "application_memory.h",
        SOURCES / "kernel_api.h",
    ]
    assert engine == {f"runtime/csrc/{path.name}": sha256(path) for path in files}
    assert {"runtime/csrc/start.c", "runtime/csrc/mavcg_runtime.h"} <= selector
    lines = "".join(f"{engine[name]}  {name.rpartition('/')[2]}\n" for name in sorted(engine))
    assert named(document, "mavcg-engine")["hashes"][0]["content"] == hashlib.sha256(lines.encode()).hexdigest()


def test_a_program_library_has_the_selector_alone(folder: Path) -> None:
    names = {each["name"] for each in sbom(folder / "libapp.so")["components"]}

    assert "mavcg-selector" in names and "mavcg-engine" not in names


def test_a_file_gets_the_same_document(folder: Path, tmp_path: Path, mavcg: Any) -> None:
    for name in ("a.json", "b.json"):
        assert mavcg("inspect", folder / "libnet.so", "--sbom", tmp_path / name).status == 0

    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text()) == sbom(folder / "libnet.so")


def test_the_target_of_make(folder: Path, tmp_path: Path) -> None:
    root, out = Path(__file__).parents[3], tmp_path / "out/sbom.json"
    words = [f"LIB={folder / 'libapp.so'}", f"SBOM={out}", f"BIN={Path(sys.executable).parent}"]
    subprocess.run(["make", "-s", "-o", "setup", "sbom", *words], cwd=root, check=True)

    assert valid(json.loads(out.read_text()))


def test_files_that_mavcg_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(MavcgError, match="not an ELF file"):
        sbom(tmp_path / "text.so")
    import _ctypes

    with pytest.raises(MavcgError, match="holds no versions made by mavcg"):
        sbom(Path(_ctypes.__file__))
