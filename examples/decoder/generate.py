"""Continues a text of token numbers by the most likely next one, from a library or by onnxruntime.

python generate.py ./libdecoder.so --prompt 1,2,3 --count 20
python generate.py decoder.onnx --prompt 1,2,3 --count 20
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

Step = Callable[[list[int], int], np.ndarray]  # (tokens, tokens before these) -> scores of the words after the last


def by_library(path: str, threads: int) -> Step:
    """Return the step of a library that keeps the caches as its states."""
    import mavcg

    model = mavcg.load(path, threads=threads)
    tokens = model.inputs[0].shape[1]

    def step(new: list[int], before: int) -> np.ndarray:
        for first in range(0, len(new), tokens):
            piece = new[first : first + tokens]
            width = len(piece) if model.dimensions else tokens  # any number, or one that the library was built for
            filled = np.zeros((1, width), np.int64)
            filled[0, : len(piece)] = piece
            total = before + first + len(piece)
            if len(piece) < width and total > len(piece):
                raise SystemExit(f"{path} takes {tokens} tokens at once; only a first prompt may have fewer")
            (scores,) = model.run(filled, np.array([total - 1], np.int32), np.array(total, np.int32))
            scores = scores[0, len(piece) - 1]
        return scores

    return step


def by_onnxruntime(path: str, threads: int) -> Step:
    """Return the step of onnxruntime, to which the caches are passed."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    caches = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs() if i.name.startswith("past")}

    def step(new: list[int], before: int) -> np.ndarray:
        total = before + len(new)
        inputs = {
            "input_ids": np.array([new], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
        }
        scores, *present = session.run(None, inputs | caches)
        caches.update(zip(caches, present, strict=True))
        row: np.ndarray = scores[0, -1]
        return row

    return step


def generate(step: Step, prompt: list[int], count: int) -> list[int]:
    """Return `count` tokens after the prompt, each the most likely one."""
    tokens, new = list(prompt), list(prompt)
    for _ in range(count):
        scores = step(new, len(tokens) - len(new))
        new = [int(np.argmax(scores))]
        tokens += new
    return tokens[len(prompt) :]


def main() -> None:
    """Print the tokens."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("path", help="a library of mavcg, or the ONNX file")
    parser.add_argument("--prompt", default="1,2,3")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    by = by_onnxruntime if Path(given.path).suffix == ".onnx" else by_library
    prompt = [int(number) for number in given.prompt.split(",")]
    print(*generate(by(given.path, given.threads), prompt, given.count))


if __name__ == "__main__":
    main()
