"""Digests of sources: code and paths count, words do not."""

from pathlib import Path

import pytest

from mavcg.text.source_digest import c_without_comments, digest_of_code

PYTHON = '"""A module."""\n\nSIZE = 4  # bytes\n'
C = '/* A file. */\nint size(void) { return 4; } // bytes\nconst char *text = "/* kept */ // kept";\n'
TABLE = "size = 4  # bytes\n"


def digest(folder: Path, **contents: str) -> str:
    files = {"a.py": PYTHON, "b.c": C, "c.toml": TABLE} | {
        name.replace("_", "."): text for name, text in contents.items()
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return digest_of_code([folder / name for name in files], folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a_py", '"""Another\nmodule."""\n# A comment.\nSIZE = (4)\n'),
        ("b_c", C.replace("/* A file. */", "/* Another\n * file. */\n").replace("// bytes", "/* B */")),
    ],
)
def test_words_do_not_count(tmp_path: Path, name: str, text: str) -> None:
    assert digest(tmp_path, **{name: text}) == digest(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a_py", PYTHON.replace("4", "5")),
        ("b_c", C.replace("4", "5")),
        ("b_c", C.replace("/* kept */", "")),
        ("c_toml", TABLE.replace("bytes", "B")),
    ],
)
def test_code_and_other_files_count(tmp_path: Path, name: str, text: str) -> None:
    assert digest(tmp_path, **{name: text}) != digest(tmp_path)


def test_paths_below_the_folder_count(tmp_path: Path) -> None:
    before = digest(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()

    assert digest(moved) == before
    (moved / "a.py").rename(moved / "d.py")
    assert digest_of_code([moved / name for name in ("b.c", "c.toml", "d.py")], moved) != before


def test_literals_of_c_hold_no_comments() -> None:
    assert c_without_comments(r"char a = '\''; char b = '/'; // gone") == r"char a = '\''; char b = '/';"
    assert c_without_comments('x = "\\"/*" /* gone */ + 1;') == 'x = "\\"/*"   + 1;'
    assert c_without_comments("a /* one */ /* two */ b") == "a     b"
