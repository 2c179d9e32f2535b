"""Versions of x86-64 of which nothing is known: kept for further instructions, dropped without."""

from dataclasses import replace

import pytest

from mavcg.hardware.core import GENERIC
from mavcg.profiles.load import load_core
from mavcg.program.unmodelled_versions import NOTHING_MORE, drop_without_instructions, unmodelled_remark
from mavcg.program.version_choice import FunctionChoice, Gain, ModelVerdict, VersionChoice

VERDICT = ModelVerdict(1.0, 1.0, "byte", 0.1, True, False, False, "by the model")
KNOWN = VersionChoice("haswell", "haswell", 20)


@pytest.mark.parametrize(
    ("version", "needs", "body"),
    [
        (KNOWN, (), GENERIC),
        (KNOWN, ("avx2",), "haswell"),
        (replace(KNOWN, gain=Gain(0.2, "measured")), (), "haswell"),
        (replace(KNOWN, verdict=VERDICT), (), "haswell"),
        (replace(KNOWN, label="cortex-a55", body="cortex-a55"), (), "cortex-a55"),  # in order: its schedule counts
        (replace(KNOWN, body="znver3"), ("avx2",), "znver3"),
    ],
)
def test_what_has_nothing_that_generic_lacks_goes(version: VersionChoice, needs: tuple[str, ...], body: str) -> None:
    cores = {name: load_core(name) for name in ("haswell", "cortex-a55")}
    choice = FunctionChoice("f", (VersionChoice(GENERIC, GENERIC, 10), version))
    left = drop_without_instructions(choice, cores, {("f", version.body): needs}).versions[1]
    assert left.body == body
    assert (left.bytes, left.dropped) == ((10, NOTHING_MORE) if body == GENERIC else (20, ""))


def test_what_is_kept_says_for_what() -> None:
    assert unmodelled_remark(KNOWN, ("avx", "avx2")).endswith("kept for its instructions of avx, avx2")
    for known in (replace(KNOWN, gain=Gain(0.2, "")), replace(KNOWN, verdict=VERDICT), replace(KNOWN, body=GENERIC)):
        assert unmodelled_remark(known, ()) == ""
