"""Names in the C of model libraries: identifiers that are no names of C's library or of mavcg."""

from pathlib import Path

import pytest

from mavcg.runtime.companions import companion_paths, companions_sentence
from mavcg.runtime.model_header import api_name


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("resnet50", "resnet50"),
        ("res-net.50", "res_net_50"),
        ("50x", "model_50x"),
        ("", "model"),
        ("é", "model"),
        ("__x", "x"),
        ("pthread", "model_pthread"),
        ("mavcg_model_x", "model_mavcg_model_x"),
        ("string", "model_string"),
        ("features", "model_features"),
        ("sem", "sem"),
    ],
)
def test_names(name: str, api: str) -> None:
    assert api_name(name) == api


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("timer", "timer_create is a function of the C library"),
        ("time", "time.h is a header of the C library"),
        ("9x", "a name in C cannot begin with a digit"),
        ("mavcg", "names that begin with mavcg are mavcg's own"),
    ],
)
def test_a_report_says_why_a_header_has_another_name(name: str, reason: str) -> None:
    files = companion_paths(name, Path(f"lib{name}.so"), cpp=False)

    assert companions_sentence(name, files) == (
        f"model_{name}.h, {name}.pc, {name}Config.cmake (not {name}.h: {reason})"
    )


def test_a_header_with_the_librarys_name_needs_no_reason() -> None:
    assert companions_sentence("resnet", companion_paths("resnet", Path("libresnet.so"))) == (
        "resnet.h, resnet.pc, resnetConfig.cmake, resnet.hpp"
    )
