"""The memory port of a unit: requests for runs of bytes, and the stream of their bytes."""

from dataclasses import dataclass
from typing import Any

from amaranth import Signal

from mavcg.accelerators.rtl.sizes import RtlSizes

DDR_BITS, RUN_BITS = 64, 32  # of addresses and of the length of a run
SEGMENT_BITS = 32  # of an offset in a segment


@dataclass(frozen=True)
class MemoryPort:
    """Requests and data of one unit.

    A request for `bytes` bytes at `address` passes in a cycle in which `request` and `accept` are 1; requests are
    served in order, and any number may be outstanding. `active` is 1 while the oldest request is served: its latency
    has passed. A read's bytes come as `data` with `count` bytes, in order, at most port_bytes, none of the next run;
    they pass when `valid` and `ready` are 1. A write's bytes go the same way, at most a word of feature memory at a
    time.
    """

    request: Any
    accept: Any
    address: Any
    bytes: Any
    active: Any
    valid: Any
    ready: Any
    data: Any
    count: Any

    def signals(self) -> list[Any]:
        """Return all signals."""
        return [getattr(self, name) for name in self.__dataclass_fields__]


def memory_port(name: str, data_bytes: int) -> MemoryPort:
    """Return an unconnected port. data_bytes: most bytes that pass in a cycle."""
    return MemoryPort(
        Signal(name=f"{name}_request"),
        Signal(name=f"{name}_accept"),
        Signal(DDR_BITS, name=f"{name}_address"),
        Signal(RUN_BITS, name=f"{name}_bytes"),
        Signal(name=f"{name}_active"),
        Signal(name=f"{name}_valid"),
        Signal(name=f"{name}_ready"),
        Signal(8 * data_bytes, name=f"{name}_data"),
        Signal((data_bytes).bit_length(), name=f"{name}_count"),
    )


def read_port(name: str, sizes: RtlSizes) -> MemoryPort:
    """Return a port that reads."""
    return memory_port(name, sizes.port_bytes)


def write_port(name: str, sizes: RtlSizes) -> MemoryPort:
    """Return a port that writes."""
    return memory_port(name, sizes.word)
