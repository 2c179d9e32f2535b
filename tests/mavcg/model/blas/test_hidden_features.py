"""A BLAS on machines that hide each extension of its cores in turn, of which they use bf16."""

from pathlib import Path

import pytest

from mavcg.hardware.core import Core
from mavcg.hardware.extensions import INVISIBLE, hwcap_words
from mavcg.hardware.feature_levels import lower_levels
from mavcg.model.blas.library import blas_objects
from mavcg.model.blas.request import BlasOptions, make_blas_request
from mavcg.profiles.load import load_core
from mavcg.runtime.coreset import CoreSet
from tests.runtime.offered_needs import ALL_BITS, asker, without

CORES = ("cortex-a510", "cortex-x2")  # in order and out of order; beside a core without bf16 no version needs any


@pytest.mark.long
def test_every_extension_of_its_cores_hidden_in_turn(tmp_path: Path) -> None:
    """The version that runs needs only what is offered, and is the first such one of its core."""
    cores = {name: load_core(name) for name in CORES}
    options = BlasOptions(cores=",".join(cores), target="aarch64-linux-musl")
    _, note = blas_objects(make_blas_request(tmp_path / "libblas.so", options), tmp_path)
    needs = {name: tuple(own) for name, own in note["blas"]["extensions"].items() if name != "generic"}
    known = {level.name: level for core in cores.values() for level in (core, *lower_levels(core, core.extensions))}
    core_set = CoreSet(tuple(known[name] for name in needs), tuple(needs.values()))
    ask = asker(core_set, tmp_path)
    questions = [(core, w) for core in cores.values() for e in core.extensions for w in without_visible(e, core)]
    questions += [(core, ALL_BITS) for core in cores.values()]

    assert len(questions) > 30 and set(cores) < set(needs)
    hidden = 0
    for (core, offered), (by_midr, by_name) in zip(questions, ask(questions), strict=True):
        ladder = [name for name in needs if known[name].core_type == core.name]
        words = [(*hwcap_words(needs[name]), 0, 0, 0) for name in ladder]
        met = [all(w & o == w for w, o in zip(own, offered, strict=True)) for own in words]
        assert by_midr == by_name == core_set.id_of(ladder[met.index(True)]), (core.name, offered)
        hidden += met.index(True) > 0
    assert hidden >= sum("bf16" in own for own in needs.values()) == 2


def without_visible(extension: str, core: Core) -> list[tuple[int, ...]]:
    return [] if extension in INVISIBLE else list(without(extension, core))
