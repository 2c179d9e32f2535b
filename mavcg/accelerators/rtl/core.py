"""Join the units, the memories on chip and the dispatcher to one core."""

from dataclasses import dataclass
from typing import Any

from amaranth import Module, Signal

from mavcg.accelerators.isa.forms import UNITS
from mavcg.accelerators.rtl.conv import ConvLanes, conv_unit
from mavcg.accelerators.rtl.dispatch import UnitPort, dispatcher, unit_port
from mavcg.accelerators.rtl.fetch import code_fetch
from mavcg.accelerators.rtl.memories import (
    ReadLane,
    WeightRead,
    WeightWrite,
    WriteLane,
    feature_memory,
    read_lane,
    weight_memory,
    write_lane,
)
from mavcg.accelerators.rtl.misc import misc_unit
from mavcg.accelerators.rtl.pool import pool_unit
from mavcg.accelerators.rtl.ports import DDR_BITS, SEGMENT_BITS, MemoryPort, read_port, write_port
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes
from mavcg.accelerators.rtl.transfers import load_unit, save_unit


@dataclass(frozen=True)
class RtlCore:
    """A core: its module and its ports, in order."""

    module: Any
    ports: list[Any]


def core(sizes: RtlSizes) -> RtlCore:
    """Build a core.

    Its ports: `start` (1 for a cycle), code_base, code_bytes, parameters_base and features_base, which stay as they are
    while it runs; `finished`, and `unknown` for an instruction that it does not know; the memory ports of fetch, load
    and save.
    """
    m = Module()
    start, finished, unknown = Signal(name="start"), Signal(name="finished"), Signal(name="unknown")
    bases = {name: Signal(DDR_BITS, name=f"{name}_base") for name in ("code", "parameters", "features")}
    code_bytes = Signal(SEGMENT_BITS, name="code_bytes")
    memory_ports = {name: read_port(name, sizes) for name in ("fetch", "load")} | {"save": write_port("save", sizes)}
    units = {name: unit_port(name) for name in UNITS}
    dispatched = Signal(SEGMENT_BITS, name="dispatched_bytes")
    code = code_fetch(m, sizes, memory_ports["fetch"], start, bases["code"], code_bytes, dispatched)
    m.d.comb += [dispatched.eq(dispatcher(m, code, start, units)), unknown.eq(code.unknown)]
    ended = Signal(name="ended")
    m.d.comb += finished.eq(ended)
    _units(m, sizes, units, memory_ports, bases, ended)
    ports = [start, *bases.values(), code_bytes, finished, unknown]
    return RtlCore(m, ports + [signal for port in memory_ports.values() for signal in port.signals()])


def _units(
    m: Module,
    sizes: RtlSizes,
    units: dict[str, UnitPort],
    memory_ports: dict[str, MemoryPort],
    bases: dict[str, Any],
    ended: Any,
) -> None:
    # In each bank the first lane has precedence: the array, for which all wait, before the transfers, which have slack.
    pixels, sums = (
        [read_lane(f"{name}_{row}", sizes) for row in range(sizes.rows)] for name in ("conv_pixels", "conv_sums")
    )
    pool, first, second, save = (read_lane(name, sizes) for name in ("pool", "misc_first", "misc_second", "save"))
    results = [write_lane(f"conv_results_{row}", sizes) for row in range(sizes.rows)]
    pool_to, misc_to, load = (write_lane(name, sizes) for name in ("pool_to", "misc_to", "load_to"))
    weight_write = WeightWrite(
        Signal(name="weight_write"),
        Signal(ADDRESS_BITS, name="weight_write_at"),
        Signal(sizes.weight_bits, name="weight_write_word"),
    )
    entries, weights = (
        WeightRead(Signal(ADDRESS_BITS, name=f"{name}_at"), Signal(sizes.weight_bits, name=f"{name}_word"))
        for name in ("entries", "weights")
    )
    segments = {name: bases[name] for name in ("features", "parameters")}
    m.submodules.load = load_unit(sizes, units["load"], memory_ports["load"], segments, load, weight_write)
    m.submodules.save = save_unit(sizes, units["save"], memory_ports["save"], {"features": bases["features"]}, save)
    m.submodules.conv = conv_unit(sizes, units["conv"], ConvLanes(pixels, sums, results, entries, weights))
    m.submodules.pool = pool_unit(sizes, units["pool"], pool, pool_to)
    m.submodules.misc = misc_unit(sizes, units["misc"], first, second, misc_to, ended)
    readers: list[ReadLane] = [*pixels, *sums, pool, first, second, save]
    writers: list[WriteLane] = [*results, pool_to, misc_to, load]
    m.submodules.feature_memory = feature_memory(sizes, readers, writers)
    m.submodules.weight_memory = weight_memory(sizes, weight_write, [entries, weights])
