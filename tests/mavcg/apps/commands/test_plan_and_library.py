"""Random applications: what `mavcg app plan` says, `mavcg app build` and `mavcg inspect` say, and the library has."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.runtime.library_tables import application_table, close_library, open_library
from tests.mavcg.apps.small_networks import write_network

pytest.importorskip("onnx")
Mavcg = Callable[..., Any]
KEYS = ("", 'weights = "f16"', 'weights = "int8"\nmax_error = 0.5')  # of a network
OF_ALL = ("arena_bytes", "separate_arena_bytes", "scratch_bytes", "weight_bytes", "separate_weight_bytes")
OF_NETWORK = ("arena_offset", "arena_bytes", "scratch_bytes", "weight_bytes", "phases", "conflicts_with")


@dataclass(frozen=True)
class DrawnNetwork:
    """A network of two convolutions, and its lines of app.toml."""

    channels: int
    side: int
    keys: str


@st.composite
def applications(draw: st.DrawFn) -> tuple[str, tuple[DrawnNetwork, ...]]:
    """Return the lines before the networks, and the networks; some share a file."""
    network = st.builds(DrawnNetwork, st.sampled_from((4, 12, 32)), st.sampled_from((9, 24, 40)), st.sampled_from(KEYS))
    networks = draw(st.lists(network, min_size=1, max_size=3))
    heads = ["", 'memory = "40 kB"', 'memory = "150 kB"']
    heads += ['weights_resident = "500 kB"'] if len(networks) > 1 else []
    heads += ['parallel = [["n0", "n1"]]'] if len(networks) > 1 else []
    return draw(st.sampled_from(heads)), tuple(networks)


def write(folder: Path, head: str, networks: tuple[DrawnNetwork, ...]) -> Path:
    tables = []
    for number, own in enumerate(networks):
        file = f"{own.channels}-{own.side}.onnx"
        write_network(folder / file, own.channels, own.side, 1)
        tables.append(f'[[network]]\nname = "n{number}"\nfile = "{file}"\n{own.keys}\n')
    path = folder / "app.toml"
    path.write_text(head + "\n" + "".join(tables))
    return path


def document(ended: Any) -> Any:
    assert ended.status == 0, ended.stderr
    return json.loads(ended.stdout)


def constants_bytes(library: Path) -> int:
    with library.open("rb") as file:
        return sum(s["sh_size"] for s in ELFFile(file).iter_sections() if s.name == ".mavcg_constants")


def assert_table_is(library: Path, plan: dict[str, Any]) -> None:
    """The tables that a program reads by the header: of the application, and of each network."""
    opened, where = open_library(library)
    try:
        table = application_table(library, opened)
        assert (table.arena_bytes, table.scratch_bytes) == (plan["arena_bytes"], plan["scratch_bytes"])
        names = [own["name"] for own in plan["networks"]]
        assert table.network_count == len(names)
        for number, planned in enumerate(plan["networks"]):
            own = table.networks[number]
            assert own.arena_offset == planned["arena_offset"]
            assert (own.model.arena_bytes, own.model.scratch_bytes) == (
                planned["arena_bytes"],
                planned["scratch_bytes"],
            )
            shared = [name for bit, name in enumerate(names) if own.conflicts_with >> bit & 1]
            assert shared == planned["conflicts_with"]
    finally:
        close_library(opened, where)


def assert_plan_is_library(mavcg: Mavcg, head: str, networks: tuple[DrawnNetwork, ...]) -> None:
    with TemporaryDirectory() as folder:
        file, library = write(Path(folder), head, networks), Path(folder) / "libapp.so"
        plan = document(mavcg("app", "plan", file, "--board", "host", "--generations", "0", "--json"))
        ended = mavcg("app", "build", file, "--board", "host", "--tune", "off", "-o", library, "--json")
        if "memory" in head and plan["arena_bytes"] + plan["weight_bytes"] > int(head.split('"')[1].split()[0]) * 1000:
            weights, arena = plan["weight_bytes"], plan["arena_bytes"]
            assert ended.status == 2 and not library.exists() and not plan["meets_constraints"]
            assert f"takes {weights + arena}: {weights} of packed weights and {arena} of buffers" in ended.stderr
            return
        built, inspected = document(ended), document(mavcg("inspect", library, "--json"))
        for other in (built, inspected):
            assert {key: other[key] for key in OF_ALL} == {key: plan[key] for key in OF_ALL}
            assert other["weights_resident"] == plan["weights_resident"]
            for own, planned in zip(other["networks"], plan["networks"], strict=True):
                assert {key: own[key] for key in OF_NETWORK} == {key: planned[key] for key in OF_NETWORK}
                assert own["stored_weights"] == planned["stored_weights"]
        assert {key: plan[key] for key in built["memory"]} == built["memory"]
        for buffer in plan["buffers"]:
            (own,) = (each for each in plan["networks"] if each["name"] == buffer["network"])
            end = own["arena_offset"] + own["arena_bytes"]
            assert own["arena_offset"] <= buffer["offset"] <= buffer["offset"] + buffer["bytes"] <= end
            assert 0 <= buffer["first"] <= buffer["last"] < own["phases"]
        assert constants_bytes(library) == plan["weight_bytes"]
        assert_table_is(library, plan)


def test_what_a_plan_says_the_library_has(mavcg: Mavcg) -> None:
    """Two networks of one file share their weights, another has its own in 8 bits; rows are computed by parts."""
    networks = (DrawnNetwork(12, 40, ""), DrawnNetwork(32, 24, KEYS[2]), DrawnNetwork(12, 40, ""))
    assert_plan_is_library(mavcg, 'memory = "70 kB"', networks)


@pytest.mark.long
@settings(max_examples=20)
@given(application=applications())
def test_what_more_plans_say_their_libraries_have(
    mavcg: Mavcg, application: tuple[str, tuple[DrawnNetwork, ...]]
) -> None:
    assert_plan_is_library(mavcg, *application)
