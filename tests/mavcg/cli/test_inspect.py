"""`mavcg inspect`: the document that scripts rely on, and the table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import loaded_bytes, symbol_bytes

SOURCE = """\
#include <stdarg.h>
int dot(const short *a, const short *b, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
int sum(int n, ...) { va_list l; va_start(l, n); int s = 0; while (n--) s += va_arg(l, int); va_end(l); return s; }
int one(void) { return 1; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, cores: Sequence[str]) -> Path:
    """dot: a version per core; sum: refused, as variadic; one: the same code for all."""
    from mavcg.cli.app import run

    folder = tmp_path_factory.mktemp("inspected")
    (folder / "k.c").write_text(SOURCE)
    arguments = ["build", "--source", str(folder / "k.c"), "--hot", "dot,sum,one", "--cores", ",".join(cores)]
    assert run([*arguments, "-o", str(folder / "lib.so")]) == 0
    return folder / "lib.so"


def test_json_is_the_interface_that_scripts_rely_on(mavcg: Any, library: Path, cores: Sequence[str]) -> None:
    ended = mavcg("inspect", library, "--json")
    document = json.loads(ended.stdout)

    assert ended.status == 0 and ended.stderr == ""
    functions = {f["name"]: f for f in document["functions"]}
    assert set(functions) == {"dot", "one"}
    dot = {v["core"]: v for v in functions["dot"]["versions"]}
    assert list(dot) == ["generic", *cores]
    keys = {"core", "version", "bytes", "shares_body_with", "extensions"}
    assert all(set(v) - {"model"} == keys and v["version"] == v["core"] for v in dot.values())
    for core, version in dot.items():
        symbol = f"dot.{version['shares_body_with'] or core}"
        assert version["bytes"] == symbol_bytes(library, symbol) > 0
    assert dot["generic"]["extensions"] == []
    assert {v["shares_body_with"] for v in functions["one"]["versions"][1:]} == {"generic"}
    assert not any(v["extensions"] for v in functions["one"]["versions"])  # the code that generic has
    assert list(document["refused"]) == ["sum"]
    assert isinstance(document["growth_percent"], float) and document["growth_percent"] > 0
    assert document["loaded_bytes"] == loaded_bytes(library)
    assert "needed" in document and "dot" not in document["needed"]


def test_growth_is_of_the_single_version_build(mavcg: Any, library: Path, tmp_path: Path, cores: Sequence[str]) -> None:
    """The same input with nothing to version but `one`, which comes out equal for all cores."""
    arguments = ["build", "--source", library.with_name("k.c"), "--hot", "one", "--cores", ",".join(cores)]
    assert mavcg(*arguments, "-o", tmp_path / "single.so").status == 0
    multi = json.loads(mavcg("inspect", library, "--json").stdout)
    single = json.loads(mavcg("inspect", tmp_path / "single.so", "--json").stdout)

    assert single["growth_percent"] == 0 and single["runtime_bytes"] == 0
    counted = multi["loaded_bytes"] * multi["growth_percent"] / (100 + multi["growth_percent"])
    grown = multi["loaded_bytes"] - single["loaded_bytes"]
    assert abs(grown - counted) < 16  # the linked single-version library itself, but for padding


def test_table_for_people(mavcg: Any, library: Path, cores: Sequence[str]) -> None:
    ended = mavcg("inspect", library)
    lines = ended.stdout.splitlines()
    assert ended.status == 0
    assert [line.split()[:2] for line in lines if line.startswith("dot")] == [["dot", "generic"]]
    assert "same code as generic" in ended.stdout
    assert "refused: sum: " in ended.stdout
    assert "code growth " in ended.stdout and " % over the single-version build" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.so", "absent.so: cannot be read (No such file or directory); name an ELF library or object"),
        (".", ".: cannot be read (Is a directory)"),
        ("text", "text: not an ELF file"),
        ("empty", "empty: not an ELF file"),
        ("/bin/sh", "/bin/sh: holds no versions made by mavcg; name a library that `mavcg build` wrote"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_file_that_is_no_library_is_refused_in_one_line(
    mavcg: Any, here: Path, name: str, message: str, more: tuple[str, ...]
) -> None:
    (here / "text").write_text("not a library")
    (here / "empty").write_text("")
    ended = mavcg("inspect", name, *more)
    assert ended.status == 2 and ended.stdout == ""
    assert ended.stderr.startswith(f"mavcg: {message}") and ended.stderr.count("\n") == 1


def test_a_cut_library_is_refused(mavcg: Any, library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    for size in (20, 64, 1000, len(whole) // 2, len(whole) - 100):
        (tmp_path / "cut.so").write_bytes(whole[:size])
        ended = mavcg("inspect", tmp_path / "cut.so")
        assert ended.status == 2 and ended.stdout == "" and "cut.so: " in ended.stderr
