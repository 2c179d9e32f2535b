"""Arrays from files: whole, and an error of one line for every kind of damage."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.files.array_file import read_arrays


def test_one_array_and_several(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array, y=array + 1)

    alone, named = (read_arrays(tmp_path / f"x.{suffix}", "x", "y") for suffix in ("npy", "npz"))
    assert isinstance(alone, np.ndarray) and (alone == array).all()
    assert isinstance(named, dict) and list(named) == ["x", "y"] and (named["y"] == array + 1).all()


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
def test_damage_anywhere_is_refused_or_harmless(tmp_path: Path, save: object) -> None:
    """Checksums, packed data, headers, sizes: what NumPy, zipfile and zlib raise is of a dozen classes."""
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    save(path, np.arange(6, dtype=np.float32))  # type: ignore[operator]
    good, refused = path.read_bytes(), 0
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            read_arrays(path, "--input x", "give another")
        except MavcgError as error:
            refused += 1
            assert str(error).startswith("--input x: no array could be read (") and "\n" not in str(error)
            assert str(error).endswith("; give another")
    assert refused > 50


def test_objects_and_sizes_beyond_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(MavcgError, match="no array could be read"):
        read_arrays(path, "x", "y")
    np.save(path, np.zeros(3, np.float32))
    path.write_bytes(path.read_bytes().replace(b"(3,), }            ", b"(1099511627776,), }"))
    with pytest.raises(MavcgError, match="no array could be read"):
        read_arrays(path, "x", "y")
