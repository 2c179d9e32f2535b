"""Lanes: connections of the execution units to the ports of the memories on chip."""

from dataclasses import dataclass
from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes


@dataclass(frozen=True)
class ReadLane:
    """A request for one word. data: the word, one cycle after the cycle in which `grant` is 1."""

    request: Any
    address: Any
    grant: Any
    data: Any


@dataclass(frozen=True)
class WriteLane:
    """A word to write; written when `grant` is 1."""

    request: Any
    address: Any
    data: Any
    grant: Any


@dataclass(frozen=True)
class WeightRead:
    """A read port of weight memory. data: the word, one cycle after its address."""

    address: Any
    data: Any


@dataclass(frozen=True)
class WeightWrite:
    """The write port of weight memory: a word is written in each cycle in which `enable` is 1."""

    enable: Any
    address: Any
    data: Any


@dataclass(frozen=True)
class WordStream:
    """Words in order: the first is taken in a cycle in which `valid` and `take` are 1."""

    valid: Any
    data: Any
    take: Any


def read_lane(name: str, sizes: RtlSizes) -> ReadLane:
    """Return an unconnected lane."""
    return ReadLane(
        Signal(name=f"{name}_request"),
        Signal(ADDRESS_BITS, name=f"{name}_address"),
        Signal(name=f"{name}_grant"),
        Signal(sizes.word_bits, name=f"{name}_data"),
    )


def write_lane(name: str, sizes: RtlSizes) -> WriteLane:
    """Return an unconnected lane."""
    return WriteLane(
        Signal(name=f"{name}_request"),
        Signal(ADDRESS_BITS, name=f"{name}_address"),
        Signal(sizes.word_bits, name=f"{name}_data"),
        Signal(name=f"{name}_grant"),
    )


def prefetch(m: Module, name: str, sizes: RtlSizes, lane: ReadLane, more: Any, address: Any) -> WordStream:
    """Return the words that a lane reads ahead, up to four.

    more: 1 if `address` is to be read; both move to the next word in the cycle of the lane's grant.
    """
    m.submodules[f"{name}_words"] = words = SyncFIFO(width=sizes.word_bits, depth=4)
    coming, take = Signal(name=f"{name}_coming"), Signal(name=f"{name}_take")
    m.d.comb += [
        lane.request.eq(more & (words.level + coming < 4)),
        lane.address.eq(address),
        words.w_en.eq(coming),
        words.w_data.eq(lane.data),
        words.r_en.eq(take),
    ]
    m.d.sync += coming.eq(lane.grant)
    return WordStream(words.r_rdy, words.r_data, take)


@dataclass(frozen=True)
class LaneGroup:
    """Lanes that read the words of one step together.

    valid: set to 1 while a step waits. needed, addresses: of each lane; a lane that reads nothing has needed 0. ended:
    1 in the cycle in which the last word is granted. words: of each lane, one cycle after `ended`.
    """

    valid: Any
    needed: list[Any]
    addresses: list[Any]
    ended: Any
    words: list[Any]


def lane_group(m: Module, name: str, sizes: RtlSizes, lanes: list[ReadLane]) -> LaneGroup:
    """Return lanes as a group: a step takes as many cycles as its words need."""
    valid, ended = Signal(name=f"{name}_valid"), Signal(name=f"{name}_ended")
    needed = [Signal(name=f"{name}_wanted_{i}") for i in range(len(lanes))]
    addresses = [Signal(ADDRESS_BITS, name=f"{name}_address_{i}") for i in range(len(lanes))]
    words, complete = [], valid
    for i, lane in enumerate(lanes):
        done, arrives = Signal(name=f"{name}_done_{i}"), Signal(name=f"{name}_arrives_{i}")
        held = Signal(sizes.word_bits, name=f"{name}_held_{i}")
        m.d.comb += [lane.request.eq(valid & needed[i] & ~done), lane.address.eq(addresses[i])]
        m.d.sync += [arrives.eq(lane.grant), done.eq(valid & ~ended & (done | lane.grant))]
        with m.If(arrives):
            m.d.sync += held.eq(lane.data)
        words.append(Mux(arrives, lane.data, held))
        complete = complete & (~needed[i] | done | lane.grant)
    m.d.comb += ended.eq(complete)
    return LaneGroup(valid, needed, addresses, ended, words)
