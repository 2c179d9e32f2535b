"""Accelerators with an instruction set, as values, read from profiles/isa_targets/*.toml."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.accelerators.fixed_point import ROUNDINGS
from mavcg.errors import MavcgError
from mavcg.profiles import schema
from mavcg.profiles.folders import files

KIND = "isa_targets"
# Integer keys of a target's file -> (minimum, maximum, what they count). The maxima are far above real accelerators and
# keep addresses in 32 bits.
WHOLE: Mapping[str, tuple[int, int, str]] = {
    "ic_parallel": (2, 1024, "operations along input channels a cycle, two for a multiply-add"),
    "oc_parallel": (1, 1024, "output channels a cycle"),
    "rows_parallel": (1, 256, "rows a cycle"),
    "batch": (1, 64, "images at once, one for each core"),
    "input_bytes": (256, 1 << 28, "bytes"),
    "weight_bytes": (256, 1 << 28, "bytes"),
    "output_bytes": (256, 1 << 28, "bytes"),
    "banks": (1, 64, "banks of each buffer"),
    "ddr_latency_cycles": (0, 100_000, "cycles"),
    "pool_parallel": (1, 4096, "elements a cycle"),
    "misc_parallel": (1, 4096, "elements a cycle"),
}
LEAST_MHZ, MOST_MHZ = 1.0, 10_000.0
_MHZ = Annotated[
    float,
    Meta(ge=LEAST_MHZ, le=MOST_MHZ, description=f"a number of MHz from {LEAST_MHZ:g} to {MOST_MHZ:g}"),
]
_POSITIVE = Annotated[float, Meta(gt=0, le=1e6, description="a number above 0 and at most 1000000")]
HOST = ("host_gops", "host_call_us")  # figures of the CPU, which a file may leave out
LEAST_BURST, MOST_BURST = 16, 1024  # bytes; the least is a beat of an AXI port of 128 bits
PORT = ("ddr_burst_bytes", "port_gb_per_s")  # figures of the way to the DDR memory, which a file may leave out
OWN, VTA = "mavcg", "vta"  # instruction sets
ISAS = (OWN, VTA)
# Sizes of VTA's default configuration, on which the widths of its instructions' fields depend.
VTA_SIZES: Mapping[str, int] = {
    "ic_parallel": 32,
    "oc_parallel": 16,
    "rows_parallel": 1,
    "batch": 1,
    "input_bytes": 1 << 15,
    "weight_bytes": 1 << 18,
    "output_bytes": 1 << 17,
}
KEYS = ("name", "description", "isa", "frequency_mhz", "ddr_gb_per_s", "rounding", "dense", *WHOLE, *HOST, *PORT)


@dataclass(frozen=True)
class IsaTarget:
    """An accelerator: a convolution array, units for pooling and element-wise work, three buffers, DDR memory.

    ic_parallel: ic_p of the paper, which counts operations: the array does ic_parallel / 2 * oc_parallel *
    rows_parallel multiply-adds per cycle. batch: number of cores; each has buffers of its own and works on a run, of an
    image or a batch, and they share the DDR memory. input_bytes, weight_bytes, output_bytes: sizes of one core's
    buffers. banks: number of banks of each buffer. pool_parallel: window positions that the pooling unit reads per
    cycle. misc_parallel: elements that the unit of element-wise operations and moves writes per cycle. ddr_gb_per_s:
    10^9 bytes per second in both directions together, for all cores. ddr_latency_cycles: latency of the DDR memory.
    rounding: rounding of shifts, one of fixed_point.ROUNDINGS. dense: "cpu" if fully connected layers run on the CPU,
    as in the paper, or "accelerator". host_gops: 10^9 operations of f32 convolutions per second on the CPU.
    host_call_us: time from the submission of a job to its start and from its end to the host's return, in microseconds;
    both None if unknown. sources: source of each figure. isa: instruction set, one of ISAS; of "vta", output_bytes are
    the accumulators'. ddr_burst_bytes: bytes of a burst of the DDR memory; a contiguous run takes whole bursts.
    port_gb_per_s: what each port of a core, for loads, saves and code, moves at most, by the requests that it keeps
    outstanding; None for no limit but the memory's.
    """

    name: str
    description: str
    frequency_mhz: float
    ic_parallel: int
    oc_parallel: int
    rows_parallel: int
    batch: int
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    banks: int
    pool_parallel: int
    misc_parallel: int
    ddr_gb_per_s: float
    ddr_latency_cycles: int
    rounding: str
    dense: str
    host_gops: float | None = None
    host_call_us: float | None = None
    sources: tuple[tuple[str, str], ...] = ()
    isa: str = OWN
    ddr_burst_bytes: int = LEAST_BURST
    port_gb_per_s: float | None = None

    @property
    def macs_in_channels(self) -> int:
        """Return the input channels that the array reads per cycle, with one multiply-add each."""
        return self.ic_parallel // 2

    @property
    def macs_per_cycle(self) -> int:
        """Return the multiply-adds of one core's array per cycle."""
        return self.macs_in_channels * self.oc_parallel * self.rows_parallel

    @property
    def peak_gops(self) -> float:
        """Return 10^9 operations per second of all cores, two for a multiply-add."""
        return 2 * self.macs_per_cycle * self.batch * self.frequency_mhz / 1000

    @property
    def ddr_bytes_per_cycle(self) -> float:
        """Return the share of the memory's bandwidth that one of `batch` cores has, in bytes per cycle."""
        return self.ddr_gb_per_s / self.batch * 1000 / self.frequency_mhz

    @property
    def port_bytes_per_cycle(self) -> float:
        """Return what one port of a core moves at most, in bytes per cycle: its limit, or all of the core's share."""
        limit = self.port_gb_per_s
        share = self.ddr_bytes_per_cycle
        return share if limit is None else min(share, limit * 1000 / self.frequency_mhz)

    def transfer_cycles(self, loaded: float, saved: float) -> float:
        """Return the cycles in which a core moves bytes: loads and saves share the memory, each through its port."""
        return max((loaded + saved) / self.ddr_bytes_per_cycle, max(loaded, saved) / self.port_bytes_per_cycle)

    @property
    def on_chip_bytes(self) -> int:
        """Return the size of all buffers of all cores, in bytes."""
        return (self.input_bytes + self.weight_bytes + self.output_bytes) * self.batch


def target_names() -> tuple[str, ...]:
    """Return the names of all targets: those of mavcg, and those in the folders of MAVCG_PROFILES."""
    return tuple(files(KIND))


def find_target(name_or_path: str) -> IsaTarget:
    """Return a target by its name, or by the path of its file, which contains "/" or ends in .toml.

    A target that is found by name has that name, that of its file; one that is found by path has the name in the file.
    Raises: MavcgError for an unknown name, with similar names; ProfileError as read_target.
    """
    if os.sep in name_or_path or name_or_path.endswith(".toml"):
        return read_target(Path(name_or_path))
    known = files(KIND)
    if name_or_path in known:
        return replace(read_target(known[name_or_path]), name=name_or_path)
    near = difflib.get_close_matches(name_or_path.lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)};"
    raise MavcgError(
        f"--target {name_or_path}: no such target; {hint} or give a file's path, such as ./{name_or_path}.toml"
    )


def read_target(path: Path) -> IsaTarget:
    """Return a target from its TOML file; `mavcg accel targets --help` describes it.

    Raises: ProfileError naming file, key, value and remedy.
    """
    table = schema.read_toml(path)
    schema.only(path, table, KEYS)
    name = schema.profile_name(path, table)
    sources: list[tuple[str, str]] = []

    def value(key: str, optional: bool = False) -> Any:
        fact = schema.value_and_source(path, table, key)
        if fact is None and optional:
            return None
        if fact is None:
            raise schema.refuse(path, key, "missing", f'write {key} = {{ value = ..., source = "..." }}')
        sources.append((key, fact[1]))
        return fact[0]

    whole = {
        key: schema.whole(path, {key: value(key)}, key, key, low, high, unit=unit)
        for key, (low, high, unit) in WHOLE.items()
    }
    target = IsaTarget(
        name=name,
        description=schema.text(path, table, "description"),
        frequency_mhz=frequency_of(path, value("frequency_mhz"), "frequency_mhz"),
        ddr_gb_per_s=schema.rate(path, value("ddr_gb_per_s"), "ddr_gb_per_s"),
        rounding=schema.one_of(path, value("rounding"), "rounding", ROUNDINGS),
        dense=schema.one_of(path, value("dense"), "dense", ("cpu", "accelerator")),
        host_gops=_positive(path, value("host_gops", optional=True), "host_gops"),
        host_call_us=_positive(path, value("host_call_us", optional=True), "host_call_us"),
        **whole,
        ddr_burst_bytes=schema.whole(
            path,
            {"ddr_burst_bytes": value("ddr_burst_bytes", optional=True) or LEAST_BURST},
            "ddr_burst_bytes",
            "ddr_burst_bytes",
            LEAST_BURST,
            MOST_BURST,
            unit="bytes",
        ),
        port_gb_per_s=_positive(path, value("port_gb_per_s", optional=True), "port_gb_per_s"),
        isa=schema.one_of(path, value("isa", optional=True) or OWN, "isa", ISAS),
        sources=tuple(sources),
    )
    check_sizes(path, target)
    return target


def _positive(path: Path, value: object, key: str) -> float | None:
    if value is None:
        return None
    number: float = schema.value_as(path, key, value, _POSITIVE, "give a number in that range, or remove the fact")
    return number


def frequency_of(path: Path, value: object, key_path: str) -> float:
    """Return a clock in MHz. key_path: location of the value in the file, for messages.

    Raises: ProfileError for a value that is not a frequency.
    """
    mhz: float = schema.value_as(path, key_path, value, _MHZ, "give a number in that range")
    return mhz


def check_sizes(path: Path, target: IsaTarget) -> None:
    """Check that the array and the buffers of a target fit each other. Raises: ProfileError if they do not."""
    if target.isa == VTA:
        for key, size in VTA_SIZES.items():
            if getattr(target, key) != size:
                raise schema.refuse(path, key, f"{getattr(target, key)} is not VTA's default", f"give {size}")
        if target.rounding == "half_away":
            wrong = "VTA's shifts round down, and half can be added before them"
            raise schema.refuse(path, "rounding", wrong, "give half_up or floor")
    if target.ic_parallel % 2:
        wrong = f"{target.ic_parallel} is odd, but it counts two operations for each input channel"
        raise schema.refuse(path, "ic_parallel", wrong, "give twice the input channels of a cycle")
    for key in ("input_bytes", "weight_bytes", "output_bytes"):
        if getattr(target, key) % target.banks:
            wrong = f"{getattr(target, key)} bytes do not divide into {target.banks} banks"
            raise schema.refuse(path, key, wrong, f"give a multiple of {target.banks}")
    least = target.macs_in_channels * target.oc_parallel
    if target.weight_bytes < 2 * least:
        wrong = (
            f"{target.weight_bytes} bytes do not hold two blocks of {least} weights, one in use and one being loaded"
        )
        raise schema.refuse(path, "weight_bytes", wrong, f"give at least {2 * least}")
