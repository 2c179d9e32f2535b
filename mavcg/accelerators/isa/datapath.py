"""Sizes of a target's memories and lanes that code generation and simulators use: words, blocks, lanes and banks."""

from dataclasses import dataclass

from mavcg.accelerators.target import IsaTarget

ENTRY_BYTES = 8  # entry of an output channel in weight memory: 32-bit bias, 8-bit shift, 16-bit multiplier, a zero
SUM_WORDS = 4  # words of feature memory that the 32-bit sums of one word of results take


def blocks(count: int, size: int) -> int:
    """Return the number of blocks of `size` elements that hold `count` elements."""
    return -(-count // size)


@dataclass(frozen=True)
class Datapath:
    """Memories and lanes of one core.

    word: bytes of a word of feature memory, which is a block of channels of one pixel; also the input channels of the
    array. oc_lanes, row_lanes: output channels and rows of the array. feature_words, weight_words: sizes of the
    memories, in their words; a word of weight memory has oc_lanes * word bytes. banks: banks of feature memory; word w
    is in bank w % banks, and each bank has a read port and a write port of one word per cycle. rounding: rounding of
    shifts.
    """

    word: int
    oc_lanes: int
    row_lanes: int
    feature_words: int
    weight_words: int
    banks: int
    rounding: str

    @property
    def weight_word(self) -> int:
        """Return the size of a word of weight memory, in bytes."""
        return self.word * self.oc_lanes

    @property
    def entry_words(self) -> int:
        """Return the words of weight memory that the entries of a block of output channels take."""
        return blocks(ENTRY_BYTES * self.oc_lanes, self.weight_word)

    def block_words(self, taps: int, channels: int, depthwise: bool) -> int:
        """Return the words of weight memory that a block of output channels takes: entries and weights."""
        weights = blocks(taps, self.word) if depthwise else taps * blocks(channels, self.word)
        return self.entry_words + weights


def datapath(target: IsaTarget) -> Datapath:
    """Return the datapath of a target; its feature memory is the input buffer followed by the output buffer."""
    word = target.macs_in_channels
    return Datapath(
        word,
        target.oc_parallel,
        target.rows_parallel,
        (target.input_bytes + target.output_bytes) // word,
        target.weight_bytes // (word * target.oc_parallel),
        2 * target.banks,
        target.rounding,
    )
