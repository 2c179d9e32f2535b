"""The frame API of a network that an application's library computes as a pipeline, in Python."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import check_status
from mavcg.runtime.loading import Array, Model

_AGAIN: int = ffi.integer_const("MAVCG_AGAIN")
_SLICE_MS = 100  # of a wait, so that a signal is heeded


@dataclass(frozen=True)
class _Frame:
    """Arrays of a frame in flight: they live until it is popped."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Pipeline:
    """Frames of a network with stages that work at the same time; LoadedApplication.pipeline returns it.

    stages: their number; threads: of each. Frames come back in the order in which they were pushed. From any threads.
    """

    def __init__(self, model: Model, table: Any, application: Any, number: int, stages: int) -> None:
        self.model = model
        self.threads = tuple(int(table.stage_threads(application, number, stage)) for stage in range(stages))
        self._table, self._application, self._number = table, application, number
        self._frames = deque[_Frame]()
        self._pushing, self._popping = threading.Lock(), threading.Lock()

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.threads)

    def push(self, *arrays: Array, timeout: float | None = None) -> bool:
        """Give the pipeline a frame. The arrays are not copied: leave them as they are until the frame is popped.

        arrays: as of Model.run. timeout: seconds to wait for room, None: as long as it takes; a pipeline takes two
        frames a stage before one has to be popped. Returns False where there was no room in time.
        Raises: MavcgError for wrong arrays, a closed application, memory that another network uses.
        """
        inputs = tuple(self.model.check_inputs(arrays))
        outputs = self.model.empty_outputs()
        pointers_in = ffi.new("void *[]", [*map(ffi.from_buffer, inputs)])
        pointers_out = ffi.new("void *[]", [*map(ffi.from_buffer, outputs)])
        with self._pushing:
            self._frames.append(_Frame(inputs, outputs))
            status = _AGAIN
            try:
                for wait_ms in _slices(timeout):
                    status = self._table_in_use().push(
                        self._application, self._number, pointers_in, pointers_out, ffi.NULL, wait_ms
                    )
                    if status != _AGAIN:
                        break
            finally:
                if status:  # no other thread pushes meanwhile, and none pops a frame that is not there
                    self._frames.pop()
        if status == _AGAIN:
            return False
        check_status(self.model.path, self._table.networks[self._number].model, status)
        return True

    def pop(self, timeout: float | None = None) -> tuple[Array, ...] | None:
        """Return the outputs of the oldest frame; None where it was not complete in time.

        timeout: seconds, None: as long as it takes, also for a frame that another thread is still to push.
        Raises: MavcgError for a frame that was cancelled, a closed application.
        """
        with self._popping:
            for wait_ms in _slices(timeout):
                status = self._table_in_use().pop(self._application, self._number, ffi.NULL, wait_ms)
                if status != _AGAIN:
                    frame = self._frames.popleft()
                    check_status(self.model.path, self._table.networks[self._number].model, status)
                    return frame.outputs
        return None

    def map(self, frames: Iterable[Array | Sequence[Array]]) -> Iterator[tuple[Array, ...]]:
        """Yield the outputs of each frame, in order, while later ones are computed.

        frames: an array each, or a sequence of arrays for a network with several inputs.
        """
        waiting = 0
        try:
            for frame in frames:
                arrays = (frame,) if isinstance(frame, np.ndarray) else tuple(frame)
                while not self.push(*arrays, timeout=0):
                    yield self._pop()
                    waiting -= 1
                waiting += 1
            while waiting:
                yield self._pop()
                waiting -= 1
        finally:
            if waiting:
                self.cancel()

    def _pop(self) -> tuple[Array, ...]:
        outputs = self.pop()
        assert outputs is not None
        return outputs

    def cancel(self) -> None:
        """End all frames that are not completed; none is left to pop."""
        self._table_in_use().cancel_frames(self._application, self._number)
        with self._popping:
            while self._frames:
                if self._table_in_use().pop(self._application, self._number, ffi.NULL, -1) != _AGAIN:
                    self._frames.popleft()

    def close(self) -> None:
        """Forget the application, which is about to be closed."""
        if self._table is not None and self._application:
            self.cancel()
        self._table = self._application = None

    def _table_in_use(self) -> Any:
        if self._table is None:
            raise MavcgError(f"{self.model.path}: the application is closed; load it again")
        return self._table


def _slices(timeout: float | None) -> Iterator[int]:
    """Yield milliseconds to wait, one part after the other, that add up to a timeout in seconds."""
    left = None if timeout is None else max(0, round(timeout * 1000))
    while left is None:
        yield _SLICE_MS
    while True:
        part = min(left, _SLICE_MS)
        yield part
        left -= part
        if not left:
            return
