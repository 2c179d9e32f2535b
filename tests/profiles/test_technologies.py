"""Technologies: ours has sources for all figures, others are refused with key and remedy."""

from pathlib import Path

import pytest

from mavcg.accelerators.plans.roofline import HOROWITZ_45_NM
from mavcg.errors import MavcgError
from mavcg.profiles.folders import files
from mavcg.profiles.technologies import find_technology, read_technology

TEXT = files("technologies")["45nm"].read_text()


def test_ours_agrees_with_the_planners_energy() -> None:
    ours = find_technology("45nm")

    assert ours.dram_pj_per_byte == HOROWITZ_45_NM.off_chip_pj_per_byte
    assert ours.sram_pj_per_byte(1 << 20) == pytest.approx(HOROWITZ_45_NM.on_chip_pj_per_byte)
    assert ours.mac("f32").pj == pytest.approx(HOROWITZ_45_NM.pj_per_mac)
    assert len(ours.sources) == 2 * 3 + 1 + 3 + 2 and all(source for _, source in ours.sources)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value = 4.6,", "value = -1,", "mac.f32.pj: -1 is not a number above 0"),
        ("value = 4.6,", "value = 1e9,", "mac.f32.pj: 1000000000.0 is not a number above 0 and at most 10000"),
        ("[mac.i8] # sums in i32", "[mac.i9]", "mac.i9: no such key"),
        ("[dram]", "[rram]", "rram: no such key"),
        ("bytes = 32768", "bytes = 4096", "sram[1].bytes: 4096 is not above the size of the row before it"),
        ("bytes = 32768", "bytes = 0", "sram[1].bytes: 0 is not a whole number of bytes"),
        ("um2_per_byte", "um2", "sram[1].um2: no such key"),
        ('name        = "45nm"', "", "name: missing"),
    ],
)
def test_wrong_files_are_refused_with_a_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(MavcgError) as error:
        read_technology(path)

    assert message in str(error.value) and str(path) in str(error.value)


def test_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TEXT.replace('"45nm"', '"mine"'))

    assert find_technology("./mine.toml", tmp_path).name == "mine"
    with pytest.raises(MavcgError, match="'40nm': no such technology; known: 45nm"):
        find_technology("40nm")
