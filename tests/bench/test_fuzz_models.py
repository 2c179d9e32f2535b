"""Damaged model files are built or refused on one line; nothing else happens, and nothing is left behind."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the fuzzer reads ONNX files to damage them")
pytest.importorskip("ai_edge_litert", reason="the fuzzer reads TFLite files to damage them")

from bench.fuzz_models import FAULTS, Outcome, counts, file_of, fuzz, lower_file, outcome_of  # noqa: E402
from bench.fuzz_mutations import mutated  # noqa: E402
from bench.fuzz_seeds import Seed, seeds  # noqa: E402

SEED = 20_000  # others than those that bench/results has


@pytest.fixture(scope="module")
def networks() -> tuple[Seed, ...]:
    """Those that are always there: blazeface is in a cache, or not."""
    return tuple(s for s in seeds(node_tests=False) if s.name != "blazeface")


@pytest.fixture(scope="module")
def refused(networks: tuple[Seed, ...]) -> list[int]:
    return [o.number for o in fuzz(range(12), SEED + 1, networks) if o.status == "refused"]


def faults(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.number} {o.seed}: {o.status}: {o.reason}" for o in outcomes if o.status in FAULTS]


def test_what_is_damaged_is_sound_at_first(networks: tuple[Seed, ...], tmp_path: Path) -> None:
    for seed in networks:
        path = tmp_path / f"{seed.name}{seed.suffix}"
        path.write_bytes(seed.data)
        lower_file(path)


@pytest.mark.parametrize("number", [80, pytest.param(200, marks=pytest.mark.long)])
def test_damaged_models_are_built_or_refused_without_a_fault(networks: tuple[Seed, ...], number: int) -> None:
    outcomes = list(fuzz(range(number), SEED, networks))

    assert faults(outcomes) == []
    counted = counts(outcomes)
    assert sum(counted.values()) == number and counted["built"] >= number / 20 and counted["refused"] >= number / 4


def test_a_file_follows_from_its_number(networks: tuple[Seed, ...]) -> None:
    assert [file_of(n, 1, networks) for n in range(5)] == [file_of(n, 1, networks) for n in range(5)]
    assert file_of(0, 1, networks) != file_of(0, 2, networks)


def test_damage_is_deep_often_enough(networks: tuple[Seed, ...]) -> None:
    source = random.Random(0)
    made = {mutated(source, networks[0]) for _ in range(60)}

    assert len(made) >= 50


def test_a_message_of_two_lines_and_a_crash_are_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mavcg.errors import MavcgError

    seed = Seed("x", b"x", ".onnx")
    for error, wanted in (
        (MavcgError("a\nb"), "crash"),
        (KeyError("k"), "crash"),
        (MavcgError("a: b"), "refused"),
        (MemoryError(), "memory"),
    ):

        def raising(path: Path, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("bench.fuzz_models.lower_file", raising)
        assert outcome_of(0, 0, [seed], tmp_path).status == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_the_command_refuses_on_one_line_and_leaves_nothing(
    networks: tuple[Seed, ...], refused: list[int], tmp_path: Path, number: int
) -> None:
    seed, data = file_of(refused[number], SEED + 1, networks)
    model = tmp_path / f"model{seed.suffix}"
    model.write_bytes(data)

    command = [sys.executable, "-m", "mavcg.cli", "build", str(model), "--board", "host", "-o", "libmodel.so", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line.startswith("mavcg: ")]
    assert len(said) == 1 and done.stderr.splitlines()[-1] == said[0]
    assert [path.name for path in tmp_path.iterdir()] == [model.name]


@pytest.mark.long
def test_ten_thousand() -> None:
    outcomes = list(fuzz(range(10_000), SEED + 2, seeds(), workers=2))

    assert faults(outcomes) == []
    assert len(outcomes) == 10_000
