"""Read GPUs from profiles/gpus/*.toml, and the user's own from gpus/ in the folders of MAVCG_PROFILES.

Each fact is { value, source }; docs/gpu.md describes the file.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.errors import MavcgError
from mavcg.hardware.gpu import Gpu
from mavcg.profiles import schema
from mavcg.profiles.folders import files
from mavcg.profiles.schema import Table, refuse

# Each fact with the least and the most that a chip can have: a figure in the wrong unit lies outside.
WHOLE_FACTS = {
    "sms": (1, 1024),
    "lanes": (16, 1024),
    "dp4a": (16, 1024),
    "shared_bytes_of_block": (16 << 10, 1 << 20),
    "shared_bytes_of_sm": (16 << 10, 4 << 20),
    "registers_of_block": (16 << 10, 1 << 20),
    "registers_of_sm": (16 << 10, 1 << 20),
    "threads_of_sm": (512, 4096),
    "blocks_of_sm": (1, 128),
    "l2_bytes": (64 << 10, 1 << 32),
}
RATE_FACTS = {"clock_mhz": (50.0, 10_000.0), "memory_gb_per_s": (1.0, 50_000.0), "l2_gb_per_s": (1.0, 200_000.0)}
_ARCH = Annotated[str, Meta(pattern=r"^sm_(6[1-9]|[7-9]\d|\d{3})$", description="an architecture from sm_61 (dp4a) on")]
OPTIONAL_FACTS = ("l2_bytes", "l2_gb_per_s")


def gpu_names() -> tuple[str, ...]:
    """Return the names of all known GPUs."""
    return tuple(files("gpus"))


def load_gpu(name: str) -> Gpu:
    """Return a GPU by its name. Raises: MavcgError for an unknown name; ProfileError as read_gpu."""
    known = files("gpus")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        raise MavcgError(f"--board {name}: no such GPU; known: {', '.join(near or known)}")
    return read_gpu(known[name])


def read_gpu(path: Path) -> Gpu:
    """Return a GPU from its TOML file. Raises: ProfileError naming file, key, value and remedy."""
    table = schema.read_toml(path)
    schema.check_name(path, table)
    schema.only(path, table, ("name", "description", "arch", *WHOLE_FACTS, *RATE_FACTS))
    sources: list[tuple[str, str]] = []
    arch = schema.fact(path, table, "arch", sources)
    arch = schema.value_as(path, "arch", arch, _ARCH, 'write arch = { value = "sm_87", source = "..." }')
    whole = {name: _number(path, table, name, *bounds, sources, int) for name, bounds in WHOLE_FACTS.items()}
    rates = {name: _number(path, table, name, *bounds, sources, float) for name, bounds in RATE_FACTS.items()}
    gpu = Gpu(
        name=path.stem,
        description=schema.text(path, table, "description"),
        arch=arch,
        sources=tuple(sources),
        **whole,  # type: ignore[arg-type]
        **rates,  # type: ignore[arg-type]
    )
    if gpu.shared_bytes_of_block > gpu.shared_bytes_of_sm:
        wrong = f"{gpu.shared_bytes_of_block} is more than shared_bytes_of_sm, {gpu.shared_bytes_of_sm}"
        raise refuse(path, "shared_bytes_of_block", wrong, "correct one of them")
    return gpu


def _number(
    path: Path,
    table: Table,
    name: str,
    low: float,
    high: float,
    sources: list[tuple[str, str]],
    kind: Any,
) -> float | None:
    value = schema.fact(path, table, name, sources)
    if value is None and name in OPTIONAL_FACTS:
        return None
    words = f"a {'whole number' if kind is int else 'number'} from {low} to {high}"
    limited = Annotated[kind, Meta(ge=low, le=high, description=words)]
    number: float = schema.value_as(path, name, value, limited, f'write {name} = {{ value = ..., source = "..." }}')
    return number
