"""Where on a board a network is tuned, and that its cores agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.errors import MavcgError
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.open import open_runner
from mavcg.lab.tuning.state import TunedOn
from mavcg.lab.tuning.tune_network import TunedCore, board_cores, board_of, disagreements, facts_document
from mavcg.lab.tuning.work_list import Job, WorkList
from mavcg.profiles.load import load_board
from mavcg.specs.primitive import Layout

S10 = load_board("exynos9820")


@pytest.fixture(scope="module")
def phone() -> MachineFacts:
    """As if a script had run on it."""
    with open_runner("local") as runner:
        recorded = Path(__file__).parents[3] / "boards" / "exynos9820"
        return replace(runner.facts(str(recorded)), arch="aarch64", model="SM-G973F")


def test_every_core_of_a_board_or_those_that_are_named(phone: MachineFacts) -> None:
    places, warnings = board_cores(S10, (), "adb:R58M", phone)
    assert [(p.machine.name, p.cpus, p.model.cluster.core) for p in places] == [
        ("cortex-a55", (3,), "cortex-a55"),
        ("cortex-a75", (5,), "cortex-a75"),
        ("exynos-m4", (7,), "exynos-m4"),
    ]
    assert warnings == () and [p.machine.in_order for p in places] == [True, False, False]
    # Integers may use what only some cores have; f32 is the same on all (profiles/load.py).
    assert all(p.core is not None and p.core.name == p.machine.name for p in places)
    (one,), _ = board_cores(S10, ("exynos-m4", "exynos-m4"), "adb:R58M", phone, threads=2)
    assert (one.machine.name, one.cpus, one.threads) == ("exynos-m4", (7, 6), 2)


@pytest.mark.parametrize(
    ("cores", "change", "threads", "words"),
    [
        (("cortex-a76",), {}, 1, "--core cortex-a76: exynos9820 has no such core; it has cortex-a55, cortex-a75"),
        ((), {"arch": "x86_64"}, 1, "adb:R58M: is x86_64, and exynos9820 is aarch64"),
        ((), {"arch": "armv7l"}, 1, "is armv7l"),
        ((), {}, 3, "--threads 3: has 2 cortex-a75"),
        ((), {"cpus": ()}, 2, "does not bind threads"),
    ],
)
def test_what_the_board_has_not(
    phone: MachineFacts, cores: tuple[str, ...], change: dict[str, object], threads: int, words: str
) -> None:
    facts = replace(phone, **change)  # type: ignore[arg-type]
    with pytest.raises(MavcgError, match=words):
        board_cores(S10, cores, "adb:R58M", facts, threads)


def test_another_machine_is_of_some_board() -> None:
    assert board_of("exynos9820", "adb") == S10
    with pytest.raises(MavcgError, match="--runner adb: its board is not named"):
        board_of("host", "adb")


def test_cores_that_compute_other_bits_are_told(phone: MachineFacts) -> None:
    places, _ = board_cores(S10, (), "adb:R58M", phone)
    same, other = (Job(Conversion(Layout.CHW, Layout.HWC, 4, n, n), 0.0) for n in (5, 6))
    plan = WorkList((), (), (same, other), 0)

    def tuned_core(number: int, sums: dict[Job, str]) -> TunedCore:
        return TunedCore(places[number], plan, TunedOn((), 0, 0, "", 0.0, checksums=sums))

    done = [tuned_core(0, {same: "1", other: "2"}), tuned_core(1, {other: "3"}), tuned_core(2, {same: "1", other: "2"})]
    assert disagreements(done) == [f"{other.name}: cortex-a75 and cortex-a55 compute other results; tell the authors"]


def test_what_a_machine_says_as_json(phone: MachineFacts) -> None:
    document = facts_document("adb:R58M", phone, S10)
    assert (document["runner"], document["board"], document["model"]) == ("adb:R58M", "exynos9820", "SM-G973F")
    assert [cpu["core"] for cpu in document["cpus"]][::2] == ["cortex-a55", "cortex-a55", "cortex-a75", "exynos-m4"]
    assert document["differences"] == [] and facts_document("x", phone, None)["board"] is None
