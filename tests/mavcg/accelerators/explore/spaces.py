"""Spaces of accelerators as files, and the networks that tests explore them for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.design_space import DesignSpace
from mavcg.accelerators.explore.exploration import Exploration, explore
from mavcg.accelerators.explore.objectives import read_objectives
from mavcg.accelerators.explore.space_file import read_space
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.workload import workload_of
from mavcg.cost.layer import ConvLayer
from mavcg.lab.jobs.engine import LocalEngine

PLAIN = {
    "mem_size": "[64, 32, 64]",
    "pe_len": "[8, 8]",
    "pe_mapping": '[["IC"], ["OC"]]',
    "bandwidth": "10",
    "frequency": "1.0",
}


def written(folder: Path, text: str = "", **keys: str) -> Path:
    path = folder / "space.toml"
    lines = [f"{key} = {value}" for key, value in (PLAIN | keys).items() if value]
    path.write_text("\n".join([text, "[accelerator]", *lines]) + "\n")
    return path


CONV = ConvLayer("conv", oc=24, ic=12, oh=14, ow=14, kh=3, kw=3, ih=14, iw=14, pads=(1, 1, 1, 1))
STRIDED = ConvLayer("strided", oc=16, ic=3, oh=16, ow=16, kh=5, kw=5, ih=35, iw=35, stride=(2, 2))
GROUPED = ConvLayer("grouped", oc=4, ic=4, oh=9, ow=9, kh=3, kw=3, ih=11, iw=11, groups=6)
DENSE = ConvLayer("dense", oc=100, ic=300, oh=1, ow=1, kh=1, kw=1, ih=1, iw=1)
NETWORKS = {"first": (STRIDED, CONV, CONV, DENSE), "second": (GROUPED, CONV)}


def explored(
    space: DesignSpace, objectives: str, prune: bool = True, store: ExplorationStore | None = None, **networks: Any
) -> Exploration:
    workload = workload_of(networks or NETWORKS)
    with store or ExplorationStore(None) as kept:
        return explore(space, workload, read_objectives(objectives, workload.networks), LocalEngine(), kept, prune)


def space_of(folder: Path, keys: Mapping[str, list[str]]) -> DesignSpace:
    return read_space(written(folder, **{key: f"[{', '.join(values)}]" for key, values in keys.items()}))


WIDE = {
    "mem_size": [f"[{k}, {k}, {k}]" for k in (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)],
    "pe_len": ["[4, 4]", "[8, 8]", "[16, 16]"],
    "pe_mapping": ['[["IC"], ["OC"]]', '[["KH"], ["KW"]]'],
    "bandwidth": ["4", "64"],
    "frequency": ["1"],
}
