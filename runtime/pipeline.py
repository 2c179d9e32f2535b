"""The frame API, in Python, of a network that an application's library computes as a pipeline."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import check_status
from mavcg.runtime.loading import Model
from mavcg.runtime.run_arrays import Array

_AGAIN: int = ffi.integer_const("MAVCG_AGAIN")
_SLICE_MS = 100  # of a wait, so that a signal is heeded


@dataclass(frozen=True)
class _Frame:
    """Arrays of a frame in the pipeline, which live until it is popped."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Pipeline:
    """Frames of a network whose stages work at the same time; LoadedApplication.pipeline returns it.

    stages: number of stages. threads: threads of each stage. Frames are popped in the order in which they were pushed.
    All functions may be called from any thread.
    """

    def __init__(self, model: Model, table: Any, application: Any, number: int, stages: int) -> None:
        self.model = model
        self.threads = tuple(int(table.stage_threads(application, number, stage)) for stage in range(stages))
        self._table, self._application, self._number = table, application, number
        self._frames = deque[_Frame]()
        self._pushing, self._popping = threading.Lock(), threading.Lock()

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return len(self.threads)

    def push(self, *arrays: Array, timeout: float | None = None) -> bool:
        """Give the pipeline a frame. The arrays are not copied: do not change them until the frame is popped.

        arrays: as in Model.run; each frame has its own length of a bounded dimension. timeout: seconds to wait for
        room; None for no limit. A pipeline takes two frames for each stage before one has to be popped. Returns: False
        if there was no room in time.
        Raises: MavcgError for wrong arrays, a closed application, and memory that another network uses.
        """
        with self.model.hold_shapes(arrays):
            inputs = tuple(self.model.check_inputs(arrays))
            outputs = self.model.empty_outputs()
        pointers_in = ffi.new("void *[]", [*map(ffi.from_buffer, inputs)])
        pointers_out = ffi.new("void *[]", [*map(ffi.from_buffer, outputs)])
        with self._pushing:
            self._frames.append(_Frame(inputs, outputs))
            status = _AGAIN
            try:
                for wait_ms in _slices(timeout):
                    with self.model.hold_shapes(arrays):
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
        """Return the outputs of the oldest frame; None if it was not complete in time.

        timeout: seconds; None for no limit, also for a frame that another thread has still to push.
        Raises: MavcgError for a cancelled frame and a closed application.
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
        """Yield the outputs of each frame, in order, while later frames are computed.

        frames: an array for each, or a sequence of arrays for a network with several inputs.
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
        """Cancel all frames that are not complete, so that none is left to pop."""
        self._table_in_use().cancel_frames(self._application, self._number)
        with self._popping:
            while self._frames:
                if self._table_in_use().pop(self._application, self._number, ffi.NULL, -1) != _AGAIN:
                    self._frames.popleft()

    def close(self) -> None:
        """Forget the application, before it is closed."""
        if self._table is not None and self._application:
            self.cancel()
        self._table = self._application = None

    def _table_in_use(self) -> Any:
        if self._table is None:
            raise MavcgError(f"{self.model.path}: the application is closed; load it again")
        return self._table


def _slices(timeout: float | None) -> Iterator[int]:
    """Yield parts of a timeout, in milliseconds, to wait for one after the other.

    timeout: in seconds; None for no limit.
    """
    left = None if timeout is None else max(0, round(timeout * 1000))
    while left is None:
        yield _SLICE_MS
    while True:
        part = min(left, _SLICE_MS)
        yield part
        left -= part
        if not left:
            return
