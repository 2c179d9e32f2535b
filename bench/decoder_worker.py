"""A process that generates tokens by one runtime, for bench/decoder.py.

    decoder_worker.py MODEL --runtime RUNTIME --threads N

It prints JSON: its version when the model is loaded, then for each line `COUNT` of its input the seconds that so many
tokens of a new text took, and the tokens.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

FIRST = 1  # the text begins with this token

Next = Callable[[int, int], int]  # (token, its place in the text) -> the most likely next token


def by_mavcg(path: Path, threads: int) -> tuple[str, Callable[[], None], Next]:
    """Return (version, function that begins a new text, next token) of a library."""
    import mavcg

    model = mavcg.load(path, threads=threads)

    def following(token: int, place: int) -> int:
        last = np.array([place], np.int32)
        (scores,) = model.run(np.array([[token]], np.int64), last, np.array(place + 1, np.int32))
        return int(scores.argmax())

    return "mavcg", model.reset, following


def by_onnxruntime(path: Path, threads: int) -> tuple[str, Callable[[], None], Next]:
    """Return the same of onnxruntime, whose caches are written in place, as onnxruntime-genai lets it do."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shapes = {i.name: i.shape for i in session.get_inputs() if i.name.startswith("past")}
    caches = {n: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(s, np.float32)) for n, s in shapes.items()}
    scores, *present = (output.name for output in session.get_outputs())

    def following(token: int, place: int) -> int:
        last = np.array([place], np.int32)
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([[token]], np.int64))
        binding.bind_cpu_input("seqlens_k", last)
        binding.bind_cpu_input("total_sequence_length", np.array(place + 1, np.int32))
        for (name, cache), output in zip(caches.items(), present, strict=True):
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(output, cache)
        binding.bind_output(scores)
        session.run_with_iobinding(binding)
        return int(binding.get_outputs()[-1].numpy().argmax())

    return f"onnxruntime {onnxruntime.__version__}", lambda: None, following


RUNTIMES = {"mavcg": by_mavcg, "onnxruntime": by_onnxruntime}


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runtime", choices=RUNTIMES, required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    version, begin, following = RUNTIMES[given.runtime](given.model, given.threads)
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        begin()
        tokens = [FIRST]
        start = time.perf_counter()
        for place in range(int(line)):
            tokens.append(following(tokens[-1], place))
        print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens[1:]}), flush=True)


if __name__ == "__main__":
    main()
