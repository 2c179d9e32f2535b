"""Python source without its words: what changes the result, and what does not."""

import pytest

from mavcg.text.source_digest import code_without_words

SOURCE = '''"""Module."""

from a import b


class C:
    """Class."""

    x: int = 1
    """Not a docstring of Python: an expression."""


def f(y):
    """Function."""
    return [y, 2]  # a comment


async def g():
    """Only a docstring."""
'''


def test_docstrings_comments_and_formatting_are_left_out() -> None:
    reworded = SOURCE.replace("Module.", "Another.").replace("Class.", "Another.").replace("Function.", "Another.")
    reworded = reworded.replace("  # a comment", "").replace("[y, 2]", "[\n        y,\n        2,\n    ]")
    without = SOURCE.replace('    """Function."""\n', "").replace('"""Module."""\n', "# Module.\n")

    assert code_without_words(reworded) == code_without_words(without) == code_without_words(SOURCE)


@pytest.mark.parametrize(("old", "new"), [("x: int = 1", "x: int = 2"), ("(y)", "(y, z=1)"), ("[y, 2]", "(y, 2)")])
def test_a_change_of_code_changes_the_result(old: str, new: str) -> None:
    assert code_without_words(SOURCE.replace(old, new)) != code_without_words(SOURCE)


def test_strings_that_are_values_count() -> None:
    assert code_without_words('TEXT = """one"""') != code_without_words('TEXT = """other"""')
    assert code_without_words('def f():\n    return "one"') != code_without_words('def f():\n    return "other"')


def test_the_result_is_python_without_docstrings() -> None:
    code = code_without_words(SOURCE)

    assert code_without_words(code) == code
    assert not any(words in code for words in ("Module.", "Class.", "Function.", "Only a docstring.", "a comment"))
    assert code_without_words('def f():\n    """Words."""') == code_without_words("def f():\n    pass")


def test_text_that_is_not_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        code_without_words("def f(:")
