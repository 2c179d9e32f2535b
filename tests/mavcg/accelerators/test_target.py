"""Targets: the paper's two, users' own files, and errors that name file, key and remedy."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.accelerators.target import find_target, read_target, target_names
from mavcg.errors import MavcgError
from mavcg.profiles.folders import HERE

ZU2 = (HERE / "isa_targets" / "zu2.toml").read_text()


def test_the_papers_targets() -> None:
    zu2, zu9 = find_target("zu2"), find_target("zu9")

    assert target_names() == ("small", "vta", "zu2", "zu9")
    assert zu2.macs_per_cycle == 576
    assert zu2.peak_gops == pytest.approx(380, rel=0.001)
    assert zu9.peak_gops == pytest.approx(4050, rel=0.002)
    assert zu2.on_chip_bytes == pytest.approx(0.66e6, rel=0.01)
    assert zu9.on_chip_bytes == pytest.approx(4e6, rel=0.02)
    assert zu9.ddr_bytes_per_cycle == pytest.approx(19.2e9 / 330e6 / 3)  # of a core
    assert zu9.port_bytes_per_cycle == pytest.approx(1.93e9 / 330e6)
    assert replace(zu9, port_gb_per_s=None).port_bytes_per_cycle == zu9.ddr_bytes_per_cycle
    # Twice as many bytes are loaded as saved, or both ports are busy; a slow memory limits both together.
    assert zu2.transfer_cycles(2000, 1000) == zu2.transfer_cycles(2000, 2000) == pytest.approx(2000 / 1.93 * 0.33)
    assert replace(zu2, ddr_gb_per_s=2.0).transfer_cycles(2000, 1000) == pytest.approx(3000 / 2.0 * 0.33)
    assert (zu2.ddr_burst_bytes, find_target("small").ddr_burst_bytes) == (64, 16)
    assert dict(zu2.sources)["port_gb_per_s"].startswith("DNNVM, fig. 8")


def test_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ZU2.replace('name = "zu2"', 'name = "mine"').replace("value = 12,", "value = 16,"))

    assert find_target(str(path)).oc_parallel == 16
    path.write_text("\n".join(line for line in ZU2.splitlines() if not line.startswith("host_")))
    assert (find_target(str(path)).host_gops, find_target(str(path)).host_call_us) == (None, None)
    with pytest.raises(MavcgError, match="did you mean zu2"):
        find_target("zu2x")


def test_a_copied_file_is_a_target_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "copy of zu2.toml", tmp_path / "isa_targets" / "mine.toml"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(ZU2)
        assert find_target(str(path)) == find_target("zu2")
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    assert "mine" in target_names()
    assert find_target("mine") == replace(find_target("zu2"), name="mine")


@pytest.mark.parametrize(
    "old,new,message",
    [
        ("value = 24,", "value = 25,", "ic_parallel: 25 is odd"),
        ("value = 24,", "value = 0,", "ic_parallel"),
        ("value = 24,", "value = 24.5,", "ic_parallel"),
        ("value = 330,", "value = 0,", "frequency_mhz"),
        ("value = 330,", "value = true,", "frequency_mhz"),
        ("ddr_burst_bytes = { value = 64,", "ddr_burst_bytes = { value = 8,", "ddr_burst_bytes"),
        ("value = 262144,", "value = 262145,", "do not divide into 8 banks"),
        ("weight_bytes = { value = 196608,", "weight_bytes = { value = 256,", "weight_bytes: 256"),
        ("value = 262144,", "value = 1e99,", "input_bytes"),
        ("value = 19.2,", "value = -1,", "ddr_gb_per_s"),
        ('"half_up"', '"nearest"', "rounding"),
        ("host_gops = { value = 10,", "host_gops = { value = 0,", "host_gops: 0 is not a number above 0"),
        ("banks =", "bank =", "bank"),
        ('"cpu"', '"gpu"', "dense"),
        ('name = "zu2"', 'name = "ZU 2"', "name"),
        ("description", "descriptions", "descriptions"),
    ],
)
def test_impossible_files_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ZU2
    path = tmp_path / "zu2.toml"
    path.write_text(ZU2.replace(old, new, 1))

    with pytest.raises(MavcgError, match=message) as error:
        read_target(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value = 32768,", "value = 16384,", "input_bytes: 16384 is not VTA's default"),
        ('"half_up"', '"half_away"', "rounding: VTA's shifts round down"),
        ('value = "vta"', 'value = "npu"', "isa"),
    ],
)
def test_a_vta_has_its_published_sizes(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (HERE / "isa_targets" / "vta.toml").read_text()
    path = tmp_path / "vta.toml"
    assert old in text
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(MavcgError, match=message):
        read_target(path)
