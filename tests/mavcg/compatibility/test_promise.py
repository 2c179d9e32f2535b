"""What version 1 promises is there: options, keys, names, layouts and JSON keys, as promise.json has them."""

from pathlib import Path

import pytest

from mavcg.runtime.declared import ffi
from tests.mavcg.cli.verbs import VERBS
from tests.mavcg.compatibility import documents, promise
from tests.mavcg.compatibility.promise import RECORDED, ROOT, SECTIONS, recorded

ADD = "record them: python -m tests.mavcg.compatibility.promise (JSON: .documents)"


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_that_is_promised_is_gone_or_changed(section: str) -> None:
    gone = set(recorded()[section]) - set(SECTIONS[section]())
    assert not gone, f"docs/compatibility.md promises them for all of version 1: {sorted(gone)}"


def test_the_promise_has_something_of_each_kind() -> None:
    """An empty or damaged record would promise nothing."""
    lines = {line for section in recorded().values() for line in section}
    assert lines >= {
        "mavcg build: --board value",
        "mavcg build: --source value repeated",
        "mavcg build: argument 1 repeated",
        "mavcg launch: argument 1 repeated",
        "mavcg.toml [build]: sources may be an array",
        "mavcg.toml [build]: max_memory may be int",
        "mavcg.toml [[model]]: file may be str",
        "MAVCG_ERROR_STATE = -10",
        "mavcg_options: 24 bytes",
        "mavcg_options.threads at 0: int32_t",
        "mavcg_model_table.run at 88: int(*)(void *, void * *, void * *)",
        "exported: mavcg_model_NAME_create",
        "mavcg.load: threads optional",
        "MAVCG_CPU_MAP",
        "inspect a program.functions[].versions[].core",
        "build a model.operators.*",
    }


def test_layouts_are_those_of_a_64_bit_processor() -> None:
    """On which they are recorded, and which all targets of mavcg are."""
    assert ffi.sizeof("void *") == 8


def test_a_type_that_takes_more_is_no_break_and_one_that_takes_less_is() -> None:
    narrow, wide = promise._kinds(str | None), promise._kinds(str | int | None)
    assert narrow == {"str"} and wide == {"str", "int"}
    assert narrow <= wide


def test_every_verb_with_documents_is_recorded_or_tested_elsewhere() -> None:
    here = {
        " ".join(words.split()[: 2 if words.split()[0] in ("app", "accel", "blas", "farm") else 1])
        for words in documents.COMMANDS.values()
    }
    assert not here & documents.ELSEWHERE
    options = [line.partition(":") for line in recorded()["options"]]
    with_documents = {verb.removeprefix("mavcg ") for verb, _, option in options if option.startswith(" --json ")}
    assert with_documents == here | documents.ELSEWHERE
    assert with_documents <= {" ".join(verb) for verb in VERBS}


def test_paths_of_keys() -> None:
    document = {"rows": [{"a": 1}, {"b": {}}], "kernels": {"conv": {"bytes": 1}}, "Other names": 2}
    assert sorted(set(documents.keys_of({"x": document["rows"]}, "v"))) == ["v.x", "v.x[].a", "v.x[].b"]
    assert list(documents.keys_of({"kernels": document["kernels"]}, "v")) == [
        "v.kernels",
        "v.kernels.*",
        "v.kernels.*.bytes",
    ]
    assert list(documents.keys_of(document, "v"))[0] == "v.*"


@pytest.mark.long
def test_documents_have_the_promised_keys() -> None:
    pytest.importorskip("onnx")
    gone = set(recorded()[documents.SECTION]) - documents.document_lines()
    assert not gone, f"docs/compatibility.md promises them for all of version 1: {sorted(gone)}"


@pytest.mark.long
def test_what_is_new_is_recorded_before_a_release() -> None:
    new = {section: sorted(set(lines()) - set(recorded()[section])) for section, lines in SECTIONS.items()}
    assert not any(new.values()), f"{new}; {ADD}"


def test_the_page_says_how_to_change_the_record() -> None:
    page = (ROOT / "docs/compatibility.md").read_text()
    assert str(Path(RECORDED).relative_to(ROOT)) in page
    assert (
        "python -m tests.mavcg.compatibility.promise" in page
        and "python -m tests.mavcg.compatibility.documents" in page
    )
