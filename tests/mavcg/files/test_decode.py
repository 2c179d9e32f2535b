"""Documents become typed values, and each fault is named with its key, its value and what to write."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mavcg.errors import MavcgError, ProfileError
from mavcg.files.decode import decode, json_document, read_json, read_toml, toml_document
from mavcg.files.file_types import value_text

Cpus = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...],
    Meta(min_length=1, description="a list of CPU numbers", examples=["[0, 1]"]),
]


@dataclass(frozen=True)
class Cluster:
    core: str
    cpus: Cpus
    max_khz: Annotated[float, Meta(gt=0, le=1e8)] | None = None


class Board(msgspec.Struct, frozen=True, rename={"kind": "type"}):
    kind: Literal["phone", "desk"]
    clusters: tuple[Cluster, ...]
    limits: Mapping[
        Annotated[str, Meta(max_length=9, description="a short name")], Annotated[int, Meta(ge=1, le=8)]
    ] = {}
    pair: tuple[int, str] | None = None
    pulled: bool = False

    def __post_init__(self) -> None:
        names = [cluster.core for cluster in self.clusters]
        if len(set(names)) != len(names):
            raise ValueError(f"{names[0]} occurs twice; keep one cluster")


GOOD: dict[str, Any] = {"type": "desk", "clusters": [{"core": "a", "cpus": [0, 1]}], "limits": {"x": 3}}


def test_a_document_becomes_classes() -> None:
    assert decode(GOOD, Board, "b.toml") == Board("desk", (Cluster("a", (0, 1)),), {"x": 3})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pullled": True}, "b.toml: pullled: no such key; did you mean pulled?"),
        (
            {"zzz": 1},
            "b.toml: zzz: no such key; keys here are type, clusters, limits, pair, pulled; remove it",
        ),
        ({"type": "shelf"}, 'b.toml: type: "shelf" is not one of phone, desk; correct it'),
        ({"type": 3}, "b.toml: type: 3 is not one of phone, desk; correct it"),
        ({"pulled": 1}, "b.toml: pulled: 1 is not true or false; correct it"),
        ({"clusters": {}}, "b.toml: clusters: {} is not a list; correct it"),
        ({"clusters": [3]}, "b.toml: clusters[0]: 3 is not a table; correct it"),
        ({"clusters": [{"core": "a"}]}, "b.toml: clusters[0].cpus: missing; give it as [0, 1]"),
        (
            {"clusters": [{"core": "a", "cpus": []}]},
            "b.toml: clusters[0].cpus: [] is not a list of CPU numbers; write it as [0, 1]",
        ),
        (
            {"clusters": [{"core": "a", "cpus": [0, -1]}]},
            "b.toml: clusters[0].cpus[1]: -1 is not a whole number from 0; correct it",
        ),
        (
            {"clusters": [{"core": "a", "cpus": [0], "max_khz": True}]},
            "b.toml: clusters[0].max_khz: true is not a number above 0 and at most 1e+08; correct it",
        ),
        (
            {"clusters": [{"core": "a", "cpus": [0], "core2": 1}]},
            "b.toml: clusters[0].core2: no such key; did you mean core?",
        ),
        ({"limits": {"a b": 9}}, 'b.toml: limits."a b": 9 is not a whole number from 1 to 8; correct it'),
        ({"limits": {"abcdefghij": 3}}, 'b.toml: limits.abcdefghij: "abcdefghij" is not a short name; correct it'),
        ({"pair": [1, 2]}, "b.toml: pair[1]: 2 is not a string; correct it"),
        (
            {"clusters": [{"core": "a", "cpus": [0]}] * 2},
            "b.toml: a occurs twice; keep one cluster",
        ),
    ],
)
def test_a_fault_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        decode({**GOOD, **changed}, Board, "b.toml", error=ProfileError)

    assert str(refused.value) == message


def test_a_whole_document_of_another_kind_is_named() -> None:
    with pytest.raises(MavcgError, match=r"^b.toml: \[\] is not a table; write it again$"):
        decode([], Board, "b.toml", "write it again")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{\n 'a': 1}",
            "f.json: line 2, column 2: not JSON (Expecting property name enclosed in double quotes); again",
        ),
        ('{"a": 1, "a": 2}', 'f.json: not JSON ("a" appears twice in one object); again'),
        ('{"a": NaN}', "f.json: not JSON (NaN is not a number); again"),
        ("[" * 100_000, "f.json: not JSON (nested too deep); again"),
        ("1" * 5000, "f.json: not JSON (a number of thousands of digits"),
    ],
)
def test_text_that_is_no_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(MavcgError) as refused:
        json_document(text, "f.json", "again")

    assert str(refused.value).startswith(message)


def test_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(MavcgError, match=r"^f.toml: not TOML \(.*line 1.*\); correct it$"):
        toml_document("a = 1 2", "f.toml")


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    (tmp_path / "a.toml").write_text("a = 1")
    (tmp_path / "b.json").write_bytes(b"\xff")

    assert read_json(tmp_path / "a.json", "again").decode(dict[str, int]) == {"a": 1}
    assert read_toml(tmp_path / "a.toml").decode(dict[str, int]) == {"a": 1}
    with pytest.raises(MavcgError, match=r"b.json: cannot be read \(not UTF-8 text, byte 0\); again$"):
        read_json(tmp_path / "b.json", "again")
    with pytest.raises(MavcgError, match=r"c.toml: cannot be read \(No such file or directory\); write one$"):
        read_toml(tmp_path / "c.toml", "write one")


def test_values_in_errors_are_short() -> None:
    assert value_text("x" * 100) == f'"{"x" * 56}...'
    assert value_text(16**6000) == "a number of thousands of digits"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: (
        st.lists(below) | st.dictionaries(st.text() | st.sampled_from(["type", "clusters", "cpus", "core"]), below)
    ),
)


@given(JSON)
def test_any_document_is_read_or_refused(document: Any) -> None:
    try:
        board = decode(document, Board, "b.toml")
    except MavcgError as refused:
        assert str(refused).startswith("b.toml: ")
        assert "\n" not in str(refused)
    else:
        assert board.kind in ("phone", "desk")


@given(st.builds(Cluster, st.text(), st.lists(st.integers(0), min_size=1).map(tuple), st.none() | st.floats(1, 1e8)))
def test_what_is_written_is_read(cluster: Cluster) -> None:
    document = json_document(msgspec.json.encode(asdict(cluster)).decode(), "c.json", "again")

    assert document.decode(Cluster) == cluster
