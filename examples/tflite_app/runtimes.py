"""Networks on LiteRT, with a delegate or without, and the two beside each other: what both applications share."""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.tflite_app.images import drawn_face, read_image

BOUND = 1e-4  # how far results may be apart, over the largest: the default of mavcg build --max-error


class Network:
    """A .tflite file that takes one image: [1, height, width, 3], f32."""

    def __init__(self, model: Path, delegate: Path | None, threads: int) -> None:
        """Raises: ValueError where a file is missing, or the model takes something else."""
        for path in (model, delegate):
            if path is not None and not path.is_file():
                raise ValueError(f"{path}: there is no such file; README.md of this example says how it is made")
        # LiteRT is looked for last, so that faults of the command line are told without it.
        from ai_edge_litert.interpreter import Interpreter, load_delegate

        # Absolute: dlopen looks for a name without a slash in the system's folders.
        options = {"threads": str(threads)}
        delegates = [] if delegate is None else [load_delegate(str(delegate.absolute()), options)]
        self._interpreter = Interpreter(str(model), num_threads=threads, experimental_delegates=delegates)
        self._interpreter.allocate_tensors()
        inputs = self._interpreter.get_input_details()
        shape = tuple(int(size) for size in inputs[0]["shape"])
        if len(inputs) != 1 or len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or inputs[0]["dtype"] != np.float32:
            kinds = ", ".join(f"{tuple(map(int, each['shape']))} of {each['dtype'].__name__}" for each in inputs)
            raise ValueError(f"{model}: takes {kinds}; this application needs one image, [1, height, width, 3] of f32")
        self._input, self.size = inputs[0]["index"], (shape[1], shape[2])
        self._outputs = [each["index"] for each in self._interpreter.get_output_details()]

    def run(self, image: Any) -> list[Any]:
        """The outputs for an image, [height, width, 3] in the range that the network was trained with."""
        self._interpreter.set_tensor(self._input, image[None])
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


def parser(module: str, about: str, examples: str, delegates: str) -> argparse.ArgumentParser:
    """The options that both applications have. delegates: what --delegate takes, for its help."""
    made = argparse.ArgumentParser(
        prog=f"python -m examples.tflite_app.{module}",
        description=about,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--image", type=Path, metavar="FILE.npy", help="[height, width, 3] of uint8; a drawn face")
    made.add_argument("--delegate", type=Path, action="append", default=[], metavar="LIBRARY.so", help=delegates)
    made.add_argument("--threads", type=_count, default=1, help="threads of the runtime and of the delegate; 1")
    made.add_argument("--rounds", type=_count, default=20, help="runs of each, in turns, that are timed; 20")
    made.add_argument("--save", type=Path, metavar="FILE.npy", help="keep the result; with a delegate, the delegate's")
    return made


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def image_of(options: argparse.Namespace) -> Any:
    """The image that the command line names, or the drawn one. Raises: ValueError where there is none."""
    return drawn_face() if options.image is None else read_image(options.image)


def side_by_side(candidates: Mapping[str, Callable[[], Any]], options: argparse.Namespace) -> int:
    """Run the candidates in alternation, and print the differences of their results and their times.

    candidates: function that computes the result, by name. The last candidate's result is saved. Returns: exit status.
    """
    # Not timed, since the first run touches memory for the first time.
    results = {name: run() for name, run in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(options.rounds):
        for name, run in candidates.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    print(", ".join(f"{name} {statistics.median(each) * 1e3:.2f} ms" for name, each in times.items()))
    *_, last = results.values()
    if options.save is not None:
        np.save(options.save, last)
    if len(candidates) == 1:
        return 0
    return _compare(list(results.values()))


def _compare(results: Sequence[Any]) -> int:
    before, after = (each.astype(np.float64) for each in results)
    apart, largest = float(np.abs(after - before).max()), float(np.abs(before).max())
    print(f"apart {apart:.2g}, largest {largest:.3g}, at most {BOUND:g} of it may be apart")
    if apart <= BOUND * largest:
        return 0
    print("the results differ by more than the bound")
    return 1
