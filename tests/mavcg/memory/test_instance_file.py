"""Problems from CSV files: both headers, and an error with line and value for each fault."""

from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.memory.instance_file import check_capacity, read_instance
from mavcg.memory.placement_search import LiveBuffer


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "instance.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("header", ["id,lower,upper,size", "buffer,start,end,size"])
def test_both_headers(tmp_path: Path, header: str) -> None:
    assert read_instance(written(tmp_path, f"{header}\nx,0,3,4\n\n y , 3,9,5\n")) == {
        "x": LiveBuffer(4, 0, 3),
        "y": LiveBuffer(5, 3, 9),
    }


def test_columns_in_any_order_and_others_beside_them(tmp_path: Path) -> None:
    text = "size,id,alignment,upper,lower\r\n4,x,1,3,0\r\n"

    assert read_instance(written(tmp_path, text)) == {"x": LiveBuffer(4, 0, 3)}


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "line 1: its columns are ''"),
        ("id,lower,size\n", "line 1: its columns are 'id,lower,size'"),
        ("id,lower,upper,size\nx,0,3\n", "line 2: has 3 values"),
        ("id,lower,upper,size\nx,0,3,many\n", "line 2: size 'many'"),
        ('id,lower,upper,size\nx,0,3,"ma\nny"\n', r"line 2: size 'ma\nny'"),
        ('id,"low\ner"\n', r"line 1: its columns are 'id,low\ner'"),
        ('id,lower,upper,size\n"x\ny",3,3,1\n', r"line 2: buffer 'x\ny' has lower 3"),
        ("id,lower,upper,size\nx,0,3,9999999999999999\n", "line 2: size 9999999999999999"),
        ("id,lower,upper,size\nx,3,3,1\n", "line 2: buffer 'x' has lower 3, upper 3"),
        ("id,lower,upper,size\nx,0,3,-1\n", "size -1"),
        ("id,lower,upper,size\nx,0,3,1\nx,0,3,1\n", "line 3: id 'x' appears twice"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MavcgError, match="instance.csv") as error:
        read_instance(written(tmp_path, text))

    assert words in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.csv", "cannot be read"), (tmp_path, "cannot be read")):
        with pytest.raises(MavcgError, match=words):
            read_instance(path)
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    with pytest.raises(MavcgError, match="is not CSV|its columns"):
        read_instance(tmp_path / "binary.csv")


def test_a_capacity_below_the_live_peak_is_refused() -> None:
    buffers = {"x": LiveBuffer(4, 0, 3), "y": LiveBuffer(5, 2, 9)}

    check_capacity(buffers, 9)
    with pytest.raises(MavcgError, match="--capacity 8: .* need 9"):
        check_capacity(buffers, 8)
