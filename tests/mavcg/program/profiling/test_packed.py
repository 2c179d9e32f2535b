"""Packed profiles of every kind are read as they are unpacked; bombs and damaged files are refused in a line."""

import gzip
import lzma
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import ProfileError
from mavcg.program.profiling import packed
from mavcg.program.profiling.load import load_profile
from mavcg.program.profiling.profile_file import save_profile
from mavcg.program.profiling.ranking import rank


def zstd(data: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return bytes(pytest.importorskip(name).compress(data))


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("name", ["perf-script.txt", "perf-report.txt", "callgrind.out", "a.profile.json"])
def test_a_packed_profile_is_its_content(data: Path, tmp_path: Path, kind: str, name: str) -> None:
    plain = tmp_path / name
    if name.endswith(".json"):
        save_profile(load_profile(data / "perf-script.txt"), plain)
    else:
        shutil.copyfile(data / name, plain)
    path = tmp_path / "anything"
    path.write_bytes(PACKERS[kind](plain.read_bytes()))
    assert [(f.symbol, f.share) for f in rank(load_profile(path))] == [
        (f.symbol, f.share) for f in rank(load_profile(plain))
    ]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.sampled_from(["gz", "xz"]), st.integers(0, 8))
def test_parts_one_after_the_other_are_one_file(parts: list[bytes], kind: str, padding: int) -> None:
    import io

    source = io.BytesIO(b"".join(map(PACKERS[kind], parts)) + bytes(padding))
    target = io.BytesIO()
    packed._unpack(source, target, {"gz": packed._gzip, "xz": packed._xz}[kind], 1 << 20)
    assert target.getvalue() == b"".join(parts)


@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_ALWAYS_ALLOWED", 4 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(PACKERS[kind](bytes(64 << 20)))
    with pytest.raises(ProfileError, match=r"bomb: unpacks to more than \d+ MiB, which no profile of its size does"):
        load_profile(path)


@pytest.mark.parametrize("kind", PACKERS)
def test_damaged_files_are_named(data: Path, tmp_path: Path, kind: str) -> None:
    whole = PACKERS[kind]((data / "perf-script.txt").read_bytes())
    path = tmp_path / "p"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ProfileError, match=r"/p: ends within its packed data; copy it again"):
        load_profile(path)
    path.write_bytes(whole[:40] + bytes(40) + whole[80:])
    with pytest.raises(ProfileError, match=r"/p: (cannot be unpacked: .*; pack or copy|ends within .*; copy) it again"):
        load_profile(path)


def test_zstd_without_its_module_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "p.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(ProfileError, match=r"p\.zst: packed by zstd, which needs a module: pip .*'mavcg\[zstd\]'"):
        load_profile(path)
