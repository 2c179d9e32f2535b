"""An accelerator's results with a file's scales are about as far from onnxruntime's as these from each other."""

import pytest

from bench.accelerators.file_scales import differences
from bench.models import model_path
from mavcg.errors import MavcgError


@pytest.mark.long
@pytest.mark.parametrize("name", ["squeezenet-random-int8", "efficientnet_lite0-int8"])
def test_steps_are_those_between_two_runs_of_onnxruntime(name: str) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'mavcg[models]'")
    try:
        model_path(name, fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    *ours, own = differences(name, 1)
    assert [row.pair for row in ours] == ["accelerator, onnxruntime", "accelerator, unoptimised"]
    for row in ours:
        assert row.most <= own.most + 1 and row.share <= 2 * own.share + 0.01
