"""Lists of objectives are read in full, or refused with what is wrong and the remedy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.accelerators.explore.pareto import NamedObjective, ObjectiveNames, read_objective_list
from mavcg.errors import MavcgError

NAMES = ObjectiveNames(("latency", "energy"), ("cores",), "boards")
NETWORKS = ("first", "second")
VALID = st.one_of(
    st.builds(NamedObjective, st.just(""), st.sampled_from(NAMES.all)),
    st.builds(NamedObjective, st.just(""), st.sampled_from(NAMES.of_networks), st.sampled_from(NETWORKS)),
)


@given(st.lists(VALID, min_size=1, unique=True), st.sampled_from((",", ", ", " ,")))
def test_valid_lists_keep_names_networks_and_order(drawn: list[NamedObjective], comma: str) -> None:
    words = [one.name if one.network is None else f"{one.name}:{one.network}" for one in drawn]

    objectives = read_objective_list(comma.join(words), NETWORKS, NAMES)

    assert [one.text for one in objectives] == words
    assert [(one.name, one.network) for one in objectives] == [(one.name, one.network) for one in drawn]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency,enrgy", "'enrgy' is not an objective of boards; did you mean energy?"),
        ("zzz", "'zzz' is not an objective of boards; choose one of latency, energy, cores"),
        ("cores:first", "cores is the same for all networks; leave out :first"),
        ("latency:", "network '' is not explored; choose one of first, second"),
        ("energy,latency:first,energy", "energy appears twice"),
        ("", "'' is not an objective"),
    ],
)
def test_other_lists_are_refused(text: str, message: str) -> None:
    with pytest.raises(MavcgError) as error:
        read_objective_list(text, NETWORKS, NAMES)

    assert str(error.value).startswith(f"--objective {text}: ")
    assert message in str(error.value)
