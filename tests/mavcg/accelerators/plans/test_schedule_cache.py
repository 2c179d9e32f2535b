"""Plans on disk: found again as they were, never another request's, never garbage, never an error."""

import multiprocessing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mavcg.accelerators.plans.roofline import Reached, roofline_performance
from mavcg.accelerators.plans.schedule_cache import Option, ScheduleCache, open_cache
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.cost.traffic import traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

MACHINE = Accelerator("m", 1.02, (MemoryLevel("on-chip", 60.0, 4096, 2048, 4096),), (16, 16), (("OC",), ("IC",)))
LAYER = ConvLayer("conv1", oc=32, ic=16, oh=7, ow=9, kh=3, kw=3, ih=7, iw=9, pads=(1, 1, 1, 1))


def plan_of(layer: ConvLayer) -> Planned:
    """Some plan; its figures are fractions that only full precision keeps."""
    tiling = Tiling(Tile(16, 16, 3, layer.ow, layer.kh, layer.kw), Dataflow.WEIGHT)
    return Planned(layer, tiling, roofline_performance(layer, traffic(layer, tiling), MACHINE, tiling.tile), 4711)


def opened(
    folder: Path, machine: Accelerator = MACHINE, search: str = "pruned", metric: str = "latency", **options: Option
) -> ScheduleCache:
    cache = open_cache(machine, search, metric, options, environment={"MAVCG_CACHE": str(folder)})
    assert cache is not None
    return cache


def filled(folder: Path) -> Path:
    """The only file of a cache with one plan."""
    cache = opened(folder)
    cache.put(plan_of(LAYER))
    cache.save()
    (path,) = folder.rglob("plans/*/[0-9a-f]*")
    return path


def test_what_was_saved_is_got_exactly(tmp_path: Path) -> None:
    filled(tmp_path)
    assert opened(tmp_path).get(LAYER) == plan_of(LAYER)


def test_layers_that_differ_in_name_alone_share_a_plan(tmp_path: Path) -> None:
    filled(tmp_path)
    other = replace(LAYER, name="conv7")
    assert opened(tmp_path).get(other) == plan_of(other)


@pytest.mark.parametrize(
    "other",
    [
        replace(LAYER, oc=33),
        replace(LAYER, ic=17),
        replace(LAYER, oh=8),
        replace(LAYER, ow=8),
        replace(LAYER, kh=1),
        replace(LAYER, kw=1),
        replace(LAYER, ih=8),
        replace(LAYER, iw=8),
        replace(LAYER, stride=(2, 1)),
        replace(LAYER, pads=(1, 1, 1, 2)),
        replace(LAYER, dilation=(2, 1)),
        replace(LAYER, groups=2),
        replace(LAYER, items=ItemBytes(1, 1, 1, 4)),
    ],
)
def test_any_other_tensor_parameter_is_another_layer(tmp_path: Path, other: ConvLayer) -> None:
    filled(tmp_path)
    assert opened(tmp_path).get(other) is None


def test_any_other_question_is_another_cache(tmp_path: Path) -> None:
    filled(tmp_path)
    level = MACHINE.memory
    others = [
        opened(tmp_path, search="exact"),
        opened(tmp_path, metric="traffic"),
        opened(tmp_path, halo=True),
        opened(tmp_path, replace(MACHINE, frequency_ghz=1.03)),
        opened(tmp_path, replace(MACHINE, pe_len=(8, 32))),
        opened(tmp_path, replace(MACHINE, pe_mapping=(("IC",), ("OC",)))),
        opened(tmp_path, replace(MACHINE, levels=(replace(level, bandwidth_gb_per_s=30.0),))),
        opened(tmp_path, replace(MACHINE, levels=(replace(level, input_bytes=4097),))),
        opened(tmp_path, replace(MACHINE, levels=(level, level))),
    ]
    assert [cache.get(LAYER) for cache in others] == [None] * len(others)


def test_options_are_told_apart_by_value_and_not_by_order(tmp_path: Path) -> None:
    cache = opened(tmp_path, halo=True, model="paper")
    cache.put(plan_of(LAYER))
    cache.save()
    assert opened(tmp_path, model="paper", halo=True).get(LAYER)
    assert opened(tmp_path, model="paper", halo=False).get(LAYER) is None


def test_the_name_of_a_machine_does_not_matter(tmp_path: Path) -> None:
    filled(tmp_path)
    renamed = replace(MACHINE, name="other", levels=(replace(MACHINE.memory, name="other"),))
    assert opened(tmp_path, renamed).get(LAYER) == plan_of(LAYER)


def test_other_code_is_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    monkeypatch.setattr("mavcg.accelerators.plans.schedule_cache.fingerprint", lambda: "0123456789abcdef")
    assert opened(tmp_path).get(LAYER) is None


@pytest.mark.parametrize("bytes_left", [0, 1, 50, -2])
def test_a_cut_file_is_absent_and_written_anew(tmp_path: Path, bytes_left: int) -> None:
    path = filled(tmp_path)
    path.write_bytes(path.read_bytes()[:bytes_left])
    assert opened(tmp_path).get(LAYER) is None
    filled(tmp_path)
    assert opened(tmp_path).get(LAYER) == plan_of(LAYER)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000])
def test_any_other_content_is_absent(tmp_path: Path, content: bytes) -> None:
    filled(tmp_path).write_bytes(content)
    assert len(opened(tmp_path)) == 0


def test_a_changed_figure_is_not_believed(tmp_path: Path) -> None:
    path = filled(tmp_path)
    before = path.read_bytes()
    assert b"[[16, 16, 3" in before
    path.write_bytes(before.replace(b"[[16, 16, 3", b"[[17, 16, 3"))
    assert opened(tmp_path).get(LAYER) is None


def test_rows_of_another_form_are_absent(tmp_path: Path) -> None:
    """Also where the file is whole: it may be from a version that wrote other rows."""
    cache = opened(tmp_path)
    cache.put(plan_of(LAYER))
    ((key, row),) = cache._rows.items()
    for wrong in ([], [*row, 1], [row[0], "sideways", *row[2:]], 5):
        cache._rows[key] = wrong  # type: ignore[assignment]
        assert cache.get(LAYER) is None


def test_nothing_is_written_without_save_and_nothing_without_news(tmp_path: Path) -> None:
    opened(tmp_path).put(plan_of(LAYER))
    opened(tmp_path).save()
    assert not list(tmp_path.rglob("*"))


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "plans").write_text("a file where a folder would be")
    cache = opened(tmp_path)
    cache.put(plan_of(LAYER))
    cache.save()
    assert cache.get(LAYER) == plan_of(LAYER)
    assert opened(tmp_path).get(LAYER) is None


def test_a_cache_can_be_turned_off(tmp_path: Path) -> None:
    assert open_cache(MACHINE, "pruned", "latency", environment={"MAVCG_CACHE": "off", "HOME": str(tmp_path)}) is None


def test_it_lies_in_the_users_cache_folder(tmp_path: Path) -> None:
    cache = open_cache(MACHINE, "pruned", "latency", environment={"HOME": str(tmp_path)})
    assert cache is not None
    cache.put(plan_of(LAYER))
    cache.save()
    assert len(list((tmp_path / ".cache/mavcg/plans").rglob("[0-9a-f]" * 64))) == 1


def test_what_others_saved_meanwhile_stays(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    one.put(plan_of(LAYER))
    two.put(plan_of(replace(LAYER, oc=64)))
    one.save()
    two.save()
    assert len(opened(tmp_path)) == 2
    assert two.get(LAYER) == plan_of(LAYER)


@dataclass(frozen=True)
class Slower(Reached):
    """A search's own reading of the same figures."""


def test_a_search_s_own_kind_of_figures_comes_back(tmp_path: Path) -> None:
    plan = plan_of(LAYER)
    own = replace(plan, reached=Slower(**vars(plan.reached)))
    environment = {"MAVCG_CACHE": str(tmp_path)}
    for _ in range(2):
        cache = open_cache(MACHINE, "exact", "latency", kind=Slower, environment=environment)
        assert cache is not None
        cache.put(own)
        cache.save()
        assert cache.get(LAYER) == own
    with pytest.raises(TypeError, match="Slower in a cache of Reached"):
        opened(tmp_path).put(own)


def _save_many(folder: Path, first: int) -> None:
    for number in range(first, first + 40):
        cache = opened(folder)
        cache.put(plan_of(replace(LAYER, oc=number)))
        cache.save()


def test_two_processes_at_once_keep_all_plans(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_save_many, args=(tmp_path, first)) for first in (1, 1001)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    cache = opened(tmp_path)
    for number in (*range(1, 41), *range(1001, 1041)):
        layer = replace(LAYER, oc=number)
        assert cache.get(layer) == plan_of(layer)
