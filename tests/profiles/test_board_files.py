"""Board files with facts that contradict each other, are in a wrong unit, or are no figures: file, key and remedy."""

from pathlib import Path

import pytest

from mavcg.errors import ProfileError
from mavcg.profiles.board_files import read_board
from mavcg.profiles.load import load_board

BOARD = """
name = "mine"
soc = "My SoC"
target = "aarch64-linux-gnu.2.17"
source = "its manual"
l3_bytes = { value = 2097152, unit = "bytes", source = "its manual" }
memory_gb_per_s = { value = 12.8, source = "its memory's data sheet" }

[[clusters]]
core = "cortex-a53"
cpus = "0-1"
max_khz = { value = 1400000, unit = "kHz", source = "its manual" }
l1d_bytes = { value = 32768, source = "its manual" }
l2_bytes = { value = 524288, source = "its manual" }
l2_cores = { value = 2, source = "its manual" }
l2_gb_per_s = { value = 9, source = "measured" }
l3_gb_per_s = { value = 7.5, source = "measured" }
memory_gb_per_s = { value = 4, source = "measured" }
"""


def written(folder: Path, text: str) -> Path:
    (folder / "boards").mkdir(exist_ok=True)
    path = folder / "boards" / "mine.toml"
    path.write_text(text)
    return path


def test_facts_that_agree_are_read(tmp_path: Path) -> None:
    board = read_board(written(tmp_path, BOARD))
    (cluster,) = board.clusters
    assert (cluster.l1d_bytes, cluster.l2_bytes, cluster.l2_cores, board.l3_bytes) == (32768, 524288, 2, 2097152)


def test_a_chip_s_caches_stand_in_place_of_the_core_s(tmp_path: Path) -> None:
    own = (
        "[clusters.caches]\n"
        'l3_latency = { value = 31, unit = "cycles", source = "measured" }\n'
        'memory_ns = { value = 120.5, source = "m" }\n'
    )
    board = read_board(written(tmp_path, BOARD + own))
    assert board.clusters[0].caches == (("l3_latency", 31.0), ("memory_ns", 120.5))
    assert ("clusters[0].caches.l3_latency", "measured") in board.sources
    l2 = "l2_bytes = { value = 524288", "l2_cores = { value = 2", "l2_gb_per_s = { value = 9"
    lines = [line.replace("524288", "0") for line in BOARD.splitlines() if not line.startswith(l2[1:])]
    assert read_board(written(tmp_path, "\n".join(lines))).clusters[0].l2_bytes == 0


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ("value = 524288", "value = 0", "clusters[0].l2_cores", "has no level 2: its l2_bytes = 0; remove it"),
        ("l1d_bytes =", "caches = 3\nl1d_bytes =", "clusters[0].caches", "3 is not a table; write [clusters.caches]"),
        (
            "l1d_bytes =",
            'caches.l3_ways = { value = -1, source = "m" }\nl1d_bytes =',
            "clusters[0].caches.l3_ways",
            "-1 is not a number from 0 to 4096; give it in ways",
        ),
        (
            "l1d_bytes =",
            'caches.memory_ns = { value = 100, unit = "cycles", source = "m" }\nl1d_bytes =',
            "clusters[0].caches.memory_ns.unit",
            '"cycles" is not the unit of memory_ns; give the value in ns',
        ),
        (
            "l1d_bytes =",
            'caches.l3_bytes = { value = 1, source = "m" }\nl1d_bytes =',
            "clusters[0].caches.l3_bytes",
            "l3_bytes",
        ),
        ("[[clusters]]", "battery = 1\n[[clusters]]", "battery", "1 is not true or false; write battery = true"),
        ('core = "cortex-a53"', "core = 7", "clusters[0].core", '7 is not text; give it as core = "..."'),
        (
            'core = "cortex-a53"',
            'core = "generic"',
            "clusters[0].core",
            "generic is not a core of a board; name the core",
        ),
        ('cpus = "0-1"', "", "clusters[0].cpus", 'missing; give it as cpus = "..."'),
        ("value = 32768", "value = 32", "clusters[0].l1d_bytes", "32 is not a whole number of bytes from 1024"),
        ("value = 1400000", "value = 1400", "clusters[0].max_khz", "whole number of kHz from 10000 to 100000000"),
        ("value = 1400000", "value = 1400000000", "clusters[0].max_khz", "whole number of kHz from 10000 to 100000000"),
        (
            'unit = "kHz"',
            'unit = "MHz"',
            "clusters[0].max_khz.unit",
            '"MHz" is not the unit of max_khz; give the value',
        ),
        ('unit = "bytes"', "unit = 1", "l3_bytes.unit", "1 is not the unit of l3_bytes; give the value in bytes"),
        ("value = 524288", "value = 16384", "clusters[0].l2_bytes", "clusters[0].l1d_bytes = 32768; correct one"),
        ("value = 2097152", "value = 262144", "l3_bytes", "is less than the nearer cache's, clusters[0].l2_bytes"),
        (
            "value = 2, s",
            "value = 3, s",
            "clusters[0].l2_cores",
            "3 cores share an L2, and the cluster has 2 CPUs; correct",
        ),
        ("value = 9, s", "value = 7, s", "clusters[0].l2_gb_per_s", "what is behind it gives, clusters[0].l3_gb_per_s"),
        ("value = 7.5", "value = 2", "clusters[0].l3_gb_per_s", "behind it gives, clusters[0].memory_gb_per_s = 4.0"),
        ("value = 12.8", "value = 1e-300", "memory_gb_per_s", "1e-300 is less than 1e-06 GB/s; give a larger number"),
        ("value = 12.8", "value = 3.5", "memory_gb_per_s", "3.5 of all cores is less than one core's, clusters[0]."),
        ("[[clusters]]", "[clusters]", "clusters", '"cpus": "0-1"'),
        ("value = 9, s", f"value = [{'9, ' * 99}], s", "clusters[0].l2_gb_per_s", "[9, 9, 9"),
        (
            "value = 524288",
            f"value = 0x{'f' * 5000}",
            "clusters[0].l2_bytes",
            "a number of thousands of digits is not a",
        ),
    ],
)
def test_faulty_board_is_refused(tmp_path: Path, old: str, new: str, key: str, said: str) -> None:
    assert old in BOARD
    path = written(tmp_path, BOARD.replace(old, new, 1))

    with pytest.raises(ProfileError) as caught:
        read_board(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ") and said in message and "\n" not in message
    assert len(message) < len(str(path)) + 300


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1" * 5000, "a number of thousands of digits is too large"),
        ("[" * 3000 + "]" * 3000, "nested too deep"),
    ],
)
def test_figures_that_python_does_not_read_are_refused(tmp_path: Path, value: str, said: str) -> None:
    path = written(tmp_path, BOARD.replace("524288", value))

    with pytest.raises(ProfileError, match=f"^{path}: .*{said}[^;]*; correct the file or remove it$"):
        read_board(path)


def test_a_core_of_another_architecture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, BOARD.replace("cortex-a53", "skylake"))
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    with pytest.raises(ProfileError) as caught:
        load_board("mine")

    wrong = "skylake is x86_64, but target is aarch64-linux-gnu.2.17"
    assert str(caught.value) == f"{path}: clusters[0].core: {wrong}; correct one of them"
