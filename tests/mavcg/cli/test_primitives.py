"""`mavcg primitives`, run as a user runs it."""

import json
from typing import Any

import pytest

from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives


def listed(mavcg: Any, *arguments: str) -> Any:
    done = mavcg("primitives", *arguments, "--json")
    assert done.status == 0, done.stderr
    return json.loads(done.stdout)


def test_json_has_what_scripts_rely_on(mavcg: Any) -> None:
    lines = listed(mavcg)

    assert [each["name"] for each in lines] == [p.name for p in (*all_primitives(), *eight_bit_primitives())]
    for each in lines:
        assert {"name", "family", "layout_in", "layout_out", "workspace", "applies_to"} <= set(each)
        assert each["layout_in"] in ("CHW", "HCW", "HWC", "CHWc") and each["applies_to"], each["name"]
        assert each["dtype"] == ("8 bits" if each["family"].startswith("qconv_") else "f32")
        assert list(each["workspace"]) == each["applies_to"] and min(each["workspace"].values()) >= 0


def test_a_family_is_listed_alone(mavcg: Any) -> None:
    lines = listed(mavcg, "--family", "sum2d")

    assert {each["family"] for each in lines} == {"sum2d"} and len(lines) == 3
    done = mavcg("primitives", "--family", "sum2d")
    assert done.status == 0 and "sum2d_scalar_chw_chw" in done.stdout


def test_those_of_8_bits_say_what_they_compute(mavcg: Any) -> None:
    (im2row,) = listed(mavcg, "--family", "qconv_im2row")
    (depthwise,) = listed(mavcg, "--family", "qconv_depthwise")

    assert {"3x3", "1x1 stride 2", "1x7", "groups"} <= set(im2row["applies_to"]) and "1x1" not in im2row["applies_to"]
    assert im2row["workspace"]["3x3"] >= 56 * 56 * 9 * 64  # the matrix of patches
    assert depthwise["applies_to"] == ["depthwise", "depthwise stride 2"]


def test_one_is_checked(mavcg: Any) -> None:
    asked = ("primitives", "check", "sum2d_scalar_chw_chw", "--scenario", "4,7,9,2,3,6,1,2")
    done = mavcg(*asked, "--core", "host", "--json")
    document = json.loads(done.stdout)

    assert done.status == 0 and document["ok"] and 0 < document["max_error"] < document["error_bound"]
    assert document["scenario"] == {"c": 4, "h": 7, "w": 9, "stride": 2, "k": 3, "m": 6, "pad": 1, "groups": 2}
    assert ": right" in mavcg(*asked).stdout
    rectangle = ("winograd_1d_f2_k7_down_hwc_hwc", "--scenario", "4,9,6,1,7x1,5,3x0", "--json")
    document = json.loads(mavcg("primitives", "check", *rectangle).stdout)
    assert document["ok"] and document["scenario"]["across"] == {"k": 1, "stride": 1, "pad": 0, "dilation": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check",), "no primitive is named"),
        (("check", "sum2d_scalar_chw_chw"), "give --scenario C,H,W"),
        (("check", "sum2d_scalar_chw_hwc", "--scenario", "3,5,5,1,3,4"), "unknown name; did you mean"),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,5"), "has 3 numbers"),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,x,1,3,4"), "'x' is not a whole number"),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,5,1,9,4"), "larger than the padded image"),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,5,1,3,4,1,2"), "groups do not divide"),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "999999,9999,9999,1,3,4"), "too large"),
        (("check", "direct_blocked_1x1_hwc_hwc", "--scenario", "3,5,5,1,3,4"), "does not compute this"),
        (
            ("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,5,1,3,4", "--core", "cortex-z9"),
            "--core cortex-z9: no such",
        ),
        (("check", "sum2d_scalar_chw_chw", "--scenario", "3,5,5,1,3,4", "--family", "sum2d"), "is for the list"),
        (("check", "qconv_im2row_hwc_hwc", "--scenario", "3,5,5,1,3,4"), "whose sums are exact, and check is for f32"),
        (("--family", "sum3d"), "the families are sum2d"),
        (("--core", "host"), "is for check; write"),
        (("chek",), "is not a subcommand"),
    ],
)
def test_bad_input_is_one_line(mavcg: Any, arguments: tuple[str, ...], words: str) -> None:
    done = mavcg("primitives", *arguments)

    assert done.status == 2 and words in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
