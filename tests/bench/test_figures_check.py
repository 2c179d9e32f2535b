"""Records against the code they are about: what makes one older, and that it is then marked as old."""

import io
import json
import tokenize
from pathlib import Path

import pytest

from bench import code_digest
from bench.code_digest import Subject, changed, code_of, code_text, files_of
from bench.figures_check import RESULTS, line, mark, states, with_code
from bench.subjects import SUBJECTS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two modules, one of which the other imports inside of a function, a C file, and a record of both."""
    (tmp_path / "mavcg").mkdir()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "mavcg/top.py").write_text("def f():\n    from mavcg.kernels.low import g\n    return g()\n")
    (tmp_path / "kernels/low.py").write_text('def g():\n    """Docstring."""\n    return 1  # one\n')
    (tmp_path / "engine.c").write_text("int run(void) { return 0; } /* runs */\n")
    (tmp_path / "results").mkdir()
    return tmp_path


SUBJECT = {"speed": Subject(("mavcg.top",), ("*.c",))}


def record(tree: Path, **more: object) -> Path:
    path = tree / "results/speed.json"
    path.write_text(json.dumps({"rows": [], "code": code_of(SUBJECT["speed"], fresh(tree)), **more}))
    return path


def fresh(tree: Path) -> Path:
    """The tree, read anew."""
    code_text.cache_clear()
    return tree


@pytest.mark.parametrize(
    ("file", "text", "folders"),
    [
        ("kernels/low.py", 'def g():\n    """Other words."""\n\n    return 1  # still\n', []),
        ("kernels/low.py", 'def g():\n    """Docstring."""\n    return 2  # one\n', ["kernels"]),
        ("kernels/low.py", 'def g():\n    """Docstring."""\n    return 1  # one\n"# no comment"\n', ["kernels"]),
        ("engine.c", "int run(void) { return 0; } // quickly\n", []),
        ("engine.c", "int run(void) { return 1; }\n", ["."]),
        ("mavcg/unrelated.py", "x = 1\n", []),
    ],
)
def test_code_makes_a_record_older_and_words_do_not(tree: Path, file: str, text: str, folders: list[str]) -> None:
    record(tree)
    (tree / file).write_text(text)
    (state,) = states(tree / "results", SUBJECT, fresh(tree))

    assert list(state.folders) == folders
    assert state.passes == (not folders)


def test_a_file_that_is_new_or_gone_counts(tree: Path) -> None:
    before = code_of(SUBJECT["speed"], fresh(tree))
    (tree / "more.c").write_text("int x;\n")

    assert changed(before, code_of(SUBJECT["speed"], fresh(tree))) == ["."]


def test_an_old_record_is_marked_until_it_is_made_anew(tree: Path) -> None:
    path = record(tree, kept={"why": "of an earlier check"})
    (tree / "engine.c").write_text("int run(void) { return 1; }\n")
    before = states(tree / "results", SUBJECT, fresh(tree))
    assert not before[0].passes and "--mark" in line(before[0])

    assert mark(tree / "results", before) == ["speed"]
    (state,) = states(tree / "results", SUBJECT, fresh(tree))
    marked = json.loads(path.read_text())
    assert state.passes and state.marked and line(state).endswith("marked as old")
    assert marked["old"] is True and marked["rows"] == [] and "kept" not in marked
    assert mark(tree / "results", [state]) == []

    (tree / "engine.c").write_text("int run(void) { return 0; }\n")
    (state,) = states(tree / "results", SUBJECT, fresh(tree))
    assert state.passes and "but marked as old" in line(state)


def test_a_record_that_is_made_anew_is_not_old() -> None:
    made = with_code("growth", {"rows": [], "old": True})

    assert made == {"rows": [], "code": code_of(SUBJECTS["growth"])}


def test_records_without_digests_or_without_a_subject_do_not_pass(tree: Path) -> None:
    (tree / "results/speed.json").write_text("{}")
    (tree / "results/other.json").write_text("{}")
    other, speed = states(tree / "results", SUBJECT, fresh(tree))

    assert not other.passes and "bench/subjects.py" in line(other)
    assert not speed.passes and "has no digests" in line(speed)


def test_subjects_name_modules_and_files_that_are_there() -> None:
    for subject in SUBJECTS.values():
        assert files_of(subject)
    with pytest.raises(FileNotFoundError, match="no module mavcg.gone"):
        code_of(Subject(("mavcg.gone",)))
    with pytest.raises(FileNotFoundError, match=r"no file matches gone/\*"):
        code_of(Subject((), ("gone/*",)))


def test_every_record_has_a_subject() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} <= set(SUBJECTS)


STRINGS = r'''
a = "# none" + '# none \\' # one \
b = """# none " \""" # none
"""; c = "\
# none" # two äö " '
d = f'{a!r:#>4}' + rb'\'  # three
# four """
'''


@pytest.mark.parametrize("text", [STRINGS, Path(code_digest.__file__).read_text()])
def test_comments_are_those_of_the_tokenizer(text: str) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    expected = [(token.start, token.end) for token in tokens if token.type == tokenize.COMMENT]
    assert list(code_digest._comments(text)) == expected and len(expected) >= 4
