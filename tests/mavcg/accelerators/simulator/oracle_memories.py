"""Memories of the simulated core, for the oracle: a read of bytes that were never written is an error."""

from collections.abc import Mapping

import numpy as np

from mavcg.accelerators.isa.datapath import ENTRY_BYTES, SUM_WORDS, Datapath, blocks
from mavcg.errors import MavcgError
from mavcg.graph import Array

_POISON = -0x56


class Memories:
    """Feature memory, weight memory and the two segments of the DDR memory of one core.

    features: feature memory, int8 [words, word]. weights: weight memory, int8 [words, oc_lanes, word]. ddr: features
    segment. *_written: True for words, and bytes of ddr, that were written.
    """

    def __init__(self, path: Datapath, feature_bytes: int, parameters: bytes) -> None:
        self.path = path
        self.forget_chip()
        self.ddr = np.full(feature_bytes, _POISON, np.int8)
        self.ddr_written = np.zeros(feature_bytes, bool)
        self.parameters = np.frombuffer(parameters, np.int8)

    def forget_chip(self) -> None:
        """Poison the memories on chip, in which a job finds nothing of earlier jobs."""
        path = self.path
        self.features = np.full((path.feature_words, path.word), _POISON, np.int8)
        self.features_written = np.zeros(path.feature_words, bool)
        self.weights = np.full((path.weight_words, path.oc_lanes, path.word), _POISON, np.int8)
        self.weights_written = np.zeros(path.weight_words, bool)

    def check_tile(self, v: Mapping[str, int], side: str, rows: int, columns: int, channels: int) -> None:
        """Raise a MavcgError for a tile that ends beyond feature memory, or that has more words, in rows that overlap.

        side: the field with the tile's address.
        """
        count = blocks(channels, self.path.word)
        if rows * columns * count > self.path.feature_words:
            size = f"{rows} x {columns} x {count}"
            raise MavcgError(f"{side}: a tile of {size} words; feature memory has {self.path.feature_words}")
        last = v[side] + (rows - 1) * v[f"{side}_row"] + columns - 1 + (count - 1) * v[f"{side}_block"]
        if last >= self.path.feature_words:
            raise MavcgError(f"{side}: reaches word {last}; feature memory has {self.path.feature_words}")

    def _addresses(self, v: Mapping[str, int], side: str, rows: int, columns: int, channels: int) -> Array:
        """Return the word addresses [rows, columns, blocks] of a tile."""
        self.check_tile(v, side, rows, columns, channels)
        grid = v[side] + np.arange(rows)[:, None, None] * v[f"{side}_row"] + np.arange(columns)[None, :, None]
        return grid + np.arange(blocks(channels, self.path.word))[None, None, :] * v[f"{side}_block"]

    def read_tile(self, v: Mapping[str, int], side: str, rows: int, columns: int, channels: int) -> Array:
        """Return a tile of feature memory, int8 [rows, columns, channels]. Raises: MavcgError for unwritten words."""
        at = self._addresses(v, side, rows, columns, channels)
        if not self.features_written[at].all():
            word = int(at[~self.features_written[at]].min())
            raise MavcgError(f"{side}: word {word} of feature memory is read before anything is written to it")
        return self.features[at].reshape(rows, columns, -1)[:, :, :channels]

    def write_tile(self, v: Mapping[str, int], side: str, tile: Array) -> None:
        """Write a tile; the bytes of a word after the tile's last channel become 0."""
        rows, columns, channels = tile.shape
        at = self._addresses(v, side, rows, columns, channels)
        padded = np.zeros((rows, columns, at.shape[2] * self.path.word), np.int8)
        padded[:, :, :channels] = tile
        self.features[at] = padded.reshape(*at.shape, self.path.word)
        self.features_written[at] = True

    def sum_words(self, address: int, shape: tuple[int, int, int]) -> slice:
        rows, columns, channels = shape
        end = address + SUM_WORDS * rows * columns * blocks(channels, self.path.word)
        if end > self.path.feature_words:
            raise MavcgError(f"sums: reach word {end - 1}; feature memory has {self.path.feature_words}")
        return slice(address, end)

    def read_sums(self, address: int, shape: tuple[int, int, int]) -> Array:
        """Return 32-bit sums [rows, columns, channels] as int64. Raises: MavcgError for words never written."""
        at = self.sum_words(address, shape)
        if not self.features_written[at].all():
            raise MavcgError(f"sums: words {at.start} to {at.stop - 1} are read before all of them are written")
        stored = self.features[at].reshape(-1).view("<i4").reshape(*shape[:2], -1)
        return stored[:, :, : shape[2]].astype(np.int64)

    def write_sums(self, address: int, sums: Array) -> None:
        """Write sums as little-endian 32-bit integers: rows, columns, channels padded to whole words with 0."""
        rows, columns, channels = sums.shape
        at = self.sum_words(address, (rows, columns, channels))
        padded = np.zeros((rows, columns, blocks(channels, self.path.word) * self.path.word), "<i4")
        padded[:, :, :channels] = sums
        self.features[at] = padded.reshape(-1).view(np.int8).reshape(-1, self.path.word)
        self.features_written[at] = True

    def check_map(self, v: Mapping[str, int]) -> None:
        """Raise a MavcgError for a map that ends past the features segment."""
        last = v["ddr"] + (v["rows"] - 1) * v["ddr_row"] + (v["columns"] - 1) * v["ddr_pixel"] + v["channels"] - 1
        if last >= len(self.ddr):
            raise MavcgError(f"ddr: reaches byte {last}; the features segment has {len(self.ddr)}")

    def ddr_tile(self, v: Mapping[str, int]) -> Array:
        """Return the byte offsets [rows, columns, channels] of a map in the features segment."""
        rows, columns, channels = v["rows"], v["columns"], v["channels"]
        grid = v["ddr"] + np.arange(rows)[:, None, None] * v["ddr_row"]
        return grid + np.arange(columns)[None, :, None] * v["ddr_pixel"] + np.arange(channels)[None, None, :]

    def load_map(self, v: Mapping[str, int]) -> None:
        """Copy a tile from the features segment to feature memory. Raises: MavcgError for bytes never written."""
        self.check_map(v)
        self.check_tile(v, "to", v["rows"], v["columns"], v["channels"])
        at = self.ddr_tile(v)
        if not self.ddr_written[at].all():
            byte = int(at[~self.ddr_written[at]].min())
            raise MavcgError(f"ddr: byte {byte} of the features segment is read before anything is written to it")
        self.write_tile(v, "to", self.ddr[at])

    def save_map(self, v: Mapping[str, int]) -> None:
        """Copy a tile from feature memory to the features segment."""
        self.check_map(v)
        self.check_tile(v, "from", v["rows"], v["columns"], v["channels"])
        at = self.ddr_tile(v)
        self.ddr[at] = self.read_tile(v, "from", v["rows"], v["columns"], v["channels"])
        self.ddr_written[at] = True

    def load_parameters(self, v: Mapping[str, int]) -> None:
        """Copy words from the parameters segment to weight memory. Raises: MavcgError past the end of one of them."""
        size = v["words"] * self.path.weight_word
        if v["ddr"] + size > len(self.parameters):
            raise MavcgError(
                f"ddr: {size} bytes at {v['ddr']} end after the {len(self.parameters)} bytes of parameters"
            )
        if v["to"] + v["words"] > self.path.weight_words:
            raise MavcgError(f"to: reaches word {v['to'] + v['words'] - 1}; weight memory has {self.path.weight_words}")
        at = slice(v["to"], v["to"] + v["words"])
        self.weights[at] = self.parameters[v["ddr"] : v["ddr"] + size].reshape(-1, *self.weights.shape[1:])
        self.weights_written[at] = True

    def read_parameters(self, mode: str, v: Mapping[str, int]) -> tuple[Array, Array, Array, Array]:
        """Return bias, shift and multiplier of each output channel and the weights [out_channels, k_h, k_w, channels].

        Raises: MavcgError for words beyond weight memory or never loaded.
        """
        path, taps = self.path, v["kernel_rows"] * v["kernel_columns"]
        depthwise = mode == "depthwise"
        size, count = path.block_words(taps, v["channels"], depthwise), blocks(v["out_channels"], path.oc_lanes)
        end = v["parameters"] + size * count
        if end > path.weight_words:
            raise MavcgError(f"parameters: reach word {end - 1}; weight memory has {path.weight_words}")
        if not self.weights_written[v["parameters"] : end].all():
            raise MavcgError(f"parameters: words {v['parameters']} to {end - 1} are read before all of them are loaded")
        words = self.weights[v["parameters"] : end].reshape(count, size, -1)
        entries = words[:, : path.entry_words].reshape(count, -1)[:, : ENTRY_BYTES * path.oc_lanes]
        entries = np.ascontiguousarray(entries).reshape(-1, ENTRY_BYTES)[: v["out_channels"]]
        bias = np.ascontiguousarray(entries[:, :4]).view("<i4")[:, 0].astype(np.int64)
        stored = words[:, path.entry_words :].reshape(count, -1, path.oc_lanes, path.word)
        # [block, position, out channel, lane] -> [out channel, position, lane]
        stored = stored.transpose(0, 2, 1, 3).reshape(count * path.oc_lanes, -1)[: v["out_channels"]]
        if depthwise:
            weights = stored[:, :taps, None]
        else:
            weights = stored.reshape(v["out_channels"], taps, -1)[:, :, : v["channels"]]
        shape = (v["out_channels"], v["kernel_rows"], v["kernel_columns"], weights.shape[-1])
        multipliers = np.ascontiguousarray(entries[:, 5:7]).view("<u2")[:, 0].astype(np.int64)
        return bias, entries[:, 4].astype(np.int64), np.maximum(multipliers, 1), weights.reshape(shape)
