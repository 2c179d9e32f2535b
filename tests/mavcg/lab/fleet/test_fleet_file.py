"""Fleet files: what they say, and errors that name file, key and remedy."""

from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.connections.address import FarmAddress
from mavcg.lab.fleet.fleet_file import FleetBoard, FleetRules, of_type, read_fleet

TWO = """\
scheduler = "tls://farm:8786"
[rules]
slow = 1.5
hot_celsius = 70
[[board]]
name = "desk-1"
type = "rk3588"
runner = "ssh:pi@10.0.0.7"
[[board]]
name = "phone"
type = "exynos9820"
runner = "adb:R58M12"
"""


def test_a_file_of_two_types(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TWO)
    fleet = read_fleet(path)

    assert fleet.boards == (
        FleetBoard("desk-1", "rk3588", "ssh:pi@10.0.0.7"),
        FleetBoard("phone", "exynos9820", "adb:R58M12"),
    )
    assert (fleet.scheduler, fleet.kinds) == (FarmAddress("farm", 8786, True), ("rk3588", "exynos9820"))
    assert fleet.rules == FleetRules(slow=1.5, hot_celsius=70.0)
    assert of_type(fleet, "rk3588").boards == fleet.boards[:1]
    words = "--board raspberry-pi-4: .*has no board of this type; it has rk3588, exynos9820"
    with pytest.raises(MavcgError, match=words):
        of_type(fleet, "raspberry-pi-4")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (TWO, "", "board: missing; add [[board]]"),
        (TWO, "board = [1", "not TOML ("),
        ("slow = 1.5", "slo = 1.5", "rules.slo: no such key; did you mean slow?"),
        ("slow = 1.5", "slow = 1", "rules.slow: 1 is not a number from 1.01 to 100"),
        ("slow = 1.5", 'slow = "x"', 'rules.slow: "x" is not a number from 1.01 to 100'),
        (
            "hot_celsius = 70",
            "hot_celsius = true",
            "rules.hot_celsius: true is not a number from 1 to 150 (degr",
        ),
        ("[rules]\nslow = 1.5\nhot_celsius = 70", "rules = 3", "rules: 3 is not a table"),
        ('"rk3588"', '"rk9999"', "board[0].type: "),
        ('"adb:R58M12"', r'"us\nb"', "board[1].runner: us b: is not a runner; give local, ssh:"),
        ('"adb:R58M12"', r'"ssh:a\nb"', "board[1].runner: ssh:a b: is not a user and host"),
        ('"adb:R58M12"', '"usb:1"', "board[1].runner: usb:1: is not a runner; give local, ssh:"),
        ('"adb:R58M12"', '"fleet:other.toml"', "board[1].runner: fleet:other.toml: only `mavcg tune` takes a fleet"),
        ('"adb:R58M12"', '"ssh:pi@10.0.0.7"', 'board[1].runner: "ssh:pi@10.0.0.7" is also the runner of desk-1'),
        ('"phone"', '"desk-1"', "board[1].name: desk-1 is also another board's name"),
        ('"phone"', '"My Phone"', 'board[1].name: "My Phone" is not a name'),
        ('"phone"', "7", "board[1].name"),
        ('runner = "adb:R58M12"', "", "board[1].runner"),
        ('"tls://farm:8786"', '"farm"', 'scheduler: "farm" is not an address of a scheduler'),
        ('"tls://farm:8786"', '"4"', 'scheduler: "4" is not an address'),
    ],
)
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in TWO
    path = tmp_path / "fleet.toml"
    path.write_text(TWO.replace(before, after))
    with pytest.raises(MavcgError) as error:
        read_fleet(path)
    assert str(error.value).startswith(f"{path}: ") and words in str(error.value)
