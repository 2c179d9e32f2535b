"""Files that appear whole or not at all: what stays where writing one fails."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.files.whole_file import whole, whole_beside, write_whole


def test_what_was_written_takes_the_place_of_the_old(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with whole(tmp_path / "a") as made:
        made.write_text("new")
        assert (tmp_path / "a").read_text() == "old"

    assert (tmp_path / "a").read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), whole(tmp_path / "a") as made:
        made.write_text("half of it")
        raise ZeroDivisionError

    assert (tmp_path / "a").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_folder_in_its_place_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="a"), whole(tmp_path / "a") as made:
        made.write_text("new")

    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_content_is_written_and_where_it_cannot_be_the_option_is_named(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "größer")
    assert (tmp_path / "a").read_bytes() == "größer".encode()
    with pytest.raises(
        MavcgError, match=r"^-o .*/no/such\.json: cannot be written \(No such file.*; name another file"
    ):
        write_whole(tmp_path / "no" / "such.json", b"x", "-o")
    (tmp_path / "folder").mkdir()
    with pytest.raises(MavcgError, match=r"^/.*/folder: cannot be written"):
        write_whole(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        with whole(tmp_path / "pipe") as made:
            made.write_text("new")
        assert read.result(timeout=300) == "new"

    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("old")
    (tmp_path / "link").symlink_to("there/a")
    with whole(tmp_path / "link") as made:
        made.write_text("new")

    assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "a").read_text() == "new"


def test_what_a_tool_created_is_copied_into_place_with_its_mode(tmp_path: Path) -> None:
    """The copy is a file of its own, written in order: no page of it is one that the tool wrote."""
    (tmp_path / "a").write_text("old")
    with whole_beside(tmp_path / "a") as made:
        made.write_bytes(bytes(range(256)) * 4096)
        made.chmod(0o750)
        written = made.stat().st_ino

    done = (tmp_path / "a").stat()
    assert (tmp_path / "a").read_bytes() == bytes(range(256)) * 4096
    assert done.st_ino != written
    assert done.st_mode & 0o777 == 0o750
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_nothing_takes_the_place_of_a_file_that_a_tool_did_not_create(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileNotFoundError), whole_beside(tmp_path / "a"):
        pass

    assert (tmp_path / "a").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
