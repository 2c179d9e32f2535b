"""The foreign family: a convolution by a library's sgemm against its definition in float64, and what it copies."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.hosts.foreign_library import find_foreign
from mavcg.kernels.primitives.foreign_gemm import foreign_primitives
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.lab.trials.check import CheckCase
from mavcg.specs.foreign_library import ForeignLibrary
from mavcg.specs.primitive import AxisWindow, Epilogue, Scenario
from tests.kernels.primitives.conftest import ALL_ENDS, assert_right, host_block, machine_of
from tests.kernels.primitives.foreign_libraries import built_library, installed_openblas

POINTWISE = Scenario(5, 3, 7, 1, 1, 6)
SCENARIOS = (
    (POINTWISE, ALL_ENDS),
    (replace(POINTWISE, batch=3), Epilogue(bias=True)),
    (Scenario(3, 6, 9, 2, 3, 17, 1), Epilogue(bias=True, act="relu")),
    (Scenario(4, 5, 5, 1, 3, 3, 1), Epilogue()),
    (Scenario(2, 6, 8, 2, 1, 5), Epilogue(residual=True)),
    (Scenario(3, 7, 6, 1, 1, 4, 0, across=AxisWindow(3, 1, 1)), ALL_ENDS),
    (Scenario(1, 1, 1, 1, 1, 1), ALL_ENDS),
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ForeignLibrary:
    return find_foreign(f"small={built_library(tmp_path_factory.mktemp('cblas'))}")


def assert_all_right(library: ForeignLibrary) -> None:
    cases = [
        CheckCase(primitive, scenario, epilogue, number, host_block())
        for primitive in foreign_primitives(library)
        for number, (scenario, epilogue) in enumerate(SCENARIOS)
    ]
    assert_right(cases, machine_of("host"), optimised=False)


def test_agrees_with_the_definition_by_a_small_cblas(small: ForeignLibrary) -> None:
    assert_all_right(small)


def test_agrees_with_the_definition_by_openblas() -> None:
    library = installed_openblas()
    if library is None:
        pytest.skip("no OpenBLAS: neither libopenblas.so.0 nor the wheel scipy-openblas32 is installed")
    assert_all_right(library)


def test_a_1x1_kernel_reads_the_image_itself(small: ForeignLibrary) -> None:
    for primitive in foreign_primitives(small):
        assert primitive.workspace_bytes(POINTWISE) == 0
        assert primitive.workspace_bytes(replace(POINTWISE, stride=2)) > 0


def test_names_have_the_library_and_no_list_has_them(small: ForeignLibrary) -> None:
    names = {primitive.name for primitive in foreign_primitives(small)}
    assert f"foreign_im2row_hwc_chw@small-{small.digest}" in names and len(names) == 4
    assert not names & {primitive.name for primitive in all_primitives()}


def test_groups_are_refused(small: ForeignLibrary) -> None:
    with pytest.raises(MavcgError, match="does not compute this scenario"):
        assert_right([CheckCase(foreign_primitives(small)[0], Scenario(4, 3, 3, 1, 1, 4, 0, 2))], machine_of("host"))
