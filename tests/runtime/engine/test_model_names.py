"""Names in the C of model libraries: identifiers that are no names of C's library or of mavcg."""

import pytest

from mavcg.runtime.model_names import api_name


@pytest.mark.parametrize(
    ("name", "api"),
    [("resnet50", "resnet50"), ("res-net.50", "res_net_50"), ("50x", "model_50x"), ("", "model"), ("é", "model"),
     ("__x", "x"), ("pthread", "model_pthread"), ("mavcg_model_x", "model_mavcg_model_x"), ("string", "model_string"),
     ("features", "model_features"), ("sem", "sem")],
)  # fmt: skip
def test_names(name: str, api: str) -> None:
    assert api_name(name) == api
