"""A process that runs a decoder by one runtime, for bench/decoder.py.

    decoder_worker.py MODEL --runtime RUNTIME --threads N [--prompt]

It prints JSON: its version when the model is loaded, then for each line `COUNT` of its input the seconds that so many
tokens of a new text took, and the tokens: one after the other, or, with --prompt, all in one run. Before each text is a
run that is not counted, of the prompt or of a first token, as llama-bench has it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

FIRST = 1  # the text begins with this token

Next = Callable[[Sequence[int], int], int]  # (tokens, the first one's place in the text) -> the most likely next token


def by_mavcg(path: Path, threads: int) -> tuple[str, Callable[[], None], Next]:
    """Return (version, function that begins a new text, next token) of a library."""
    import mavcg

    model = mavcg.load(path, threads=threads)
    # Kept, as the other runtimes keep theirs: the system clears each page of new memory.
    kept = model.empty_outputs()

    def following(tokens: Sequence[int], place: int) -> int:
        end = place + len(tokens)
        lengths = np.array([end - 1], np.int32), np.array(end, np.int32)
        (scores,) = model.run(np.array([tokens], np.int64), *lengths, out=kept)
        return int(scores[0, -1].argmax())

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

    def following(tokens: Sequence[int], place: int) -> int:
        end = place + len(tokens)
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([tokens], np.int64))
        binding.bind_cpu_input("seqlens_k", np.array([end - 1], np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array(end, np.int32))
        for (name, cache), output in zip(caches.items(), present, strict=True):
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(output, cache)
        binding.bind_output(scores)
        session.run_with_iobinding(binding)
        return int(binding.get_outputs()[-1].numpy()[0, -1].argmax())

    return f"onnxruntime {onnxruntime.__version__}", lambda: None, following


def by_genai(path: Path, threads: int) -> tuple[str, Callable[[], None], Next]:
    """Return the same of onnxruntime-genai, which keeps the text itself. path: a folder of bench/decoder_genai.py."""
    import onnxruntime_genai

    config = onnxruntime_genai.Config(str(path))
    options = {"session_options": {"intra_op_num_threads": threads}}
    config.overlay(json.dumps({"model": {"decoder": options}}))
    model = onnxruntime_genai.Model(config)
    settings = onnxruntime_genai.GeneratorParams(model)
    settings.set_search_options(do_sample=False)
    texts: list[onnxruntime_genai.Generator] = []

    def begin() -> None:
        texts[:] = [onnxruntime_genai.Generator(model, settings)]

    def following(tokens: Sequence[int], place: int) -> int:
        (text,) = texts
        if not place:
            text.append_tokens(np.array(tokens, np.int32))
        text.generate_next_token()
        return int(text.get_next_tokens()[0])

    return f"onnxruntime-genai {onnxruntime_genai.__version__}", begin, following


RUNTIMES = {"mavcg": by_mavcg, "onnxruntime": by_onnxruntime, "onnxruntime-genai": by_genai}


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runtime", choices=RUNTIMES, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", action="store_true")
    given = parser.parse_args()
    version, begin, following = RUNTIMES[given.runtime](given.model, given.threads)
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        count = int(line)
        begin()
        following(range(FIRST, FIRST + (count if given.prompt else 1)), 0)
        begin()
        tokens = [FIRST]
        start = time.perf_counter()
        if given.prompt:
            tokens.append(following(range(FIRST, FIRST + count), 0))
        else:
            for place in range(count):
                tokens.append(following(tokens[-1:], place))
        print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens[1:]}), flush=True)


if __name__ == "__main__":
    main()
