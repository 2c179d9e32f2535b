"""The check by execution of many functions: its progress, what it keeps, and that it goes on where it ended."""

from pathlib import Path

import pytest

pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")

from mavcg.assembly import checking
from mavcg.assembly.checking import FunctionCheck, check_functions
from mavcg.assembly.equivalence import compare
from mavcg.files.store import NOTHING_KEPT, EntryStore

NAMES = ("f", "g", "h")
BEFORE = "".join(
    f"\t.globl {n}\n\t.type {n}, %function\n{n}:\n\tadd x0, x0, #1\n\tadd x1, x1, #2\n\tret\n" for n in NAMES
)
AFTER = BEFORE.replace("\tadd x0, x0, #1\n\tadd x1, x1, #2\n", "\tadd x1, x1, #2\n\tadd x0, x0, #1\n")


def checked(store: EntryStore, after: str = AFTER) -> tuple[dict[str, FunctionCheck], list[str]]:
    said: list[str] = []
    return check_functions(BEFORE, after, NAMES, {}, "k.s", said.append, store), said


def test_an_interrupted_check_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EntryStore(tmp_path)
    ran: list[str] = []

    def interrupted(before: object, after: object, name: str, *more: object, **options: object) -> object:
        ran.append(name)
        if ran == ["f", "g"]:
            raise KeyboardInterrupt
        return compare(before, after, name, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "compare", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checked(store)
    checks, said = checked(store)
    assert ran == ["f", "g", "g", "h"]
    assert said == ["checking f, 1 of 3, decided by an earlier check", "checking g, 2 of 3", "checking h, 3 of 3"]
    assert checks == checked(NOTHING_KEPT)[0] and checks["f"].word == "all"


def test_other_code_is_checked_anew_and_a_difference_is_never_kept(tmp_path: Path) -> None:
    store = EntryStore(tmp_path)
    checked(store)
    wrong = AFTER.replace("add x0, x0, #1", "add x0, x0, #3")
    for _ in range(2):
        checks, said = checked(store, wrong)
        assert checks["f"].difference and said == ["checking f, 1 of 3"]


def test_an_entry_of_another_format_is_checked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EntryStore(tmp_path)
    monkeypatch.setattr(EntryStore, "get", lambda self, key: b'{"other": 1}')
    assert checked(store)[1] == [f"checking {name}, {n} of 3" for n, name in enumerate(NAMES, 1)]
