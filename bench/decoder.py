"""Tokens a second of a decoder with weights of 4 bits: `python -m bench.decoder [--size 100m] [--tokens N] [--json]`.

The seeded decoder of examples/decoder, whose activations are quantised in the run, by mavcg and onnxruntime with one
thread and two: each in a process of its own that is stopped while others run, in rounds, of which every one begins with
another runtime. A round is a text of N tokens, one after the other, then a prompt of as many in one run, each after a
run that is not counted, as llama-bench has it; a runtime's figure is its median. The products of weights in a prompt
stand beside those that one core can make at most by dot products of vectors (vpdpbusd, sdot), measured in the same
round; where kernels use AMX's tiles, which make several times as many, a share may be above 100 %. onnxruntime writes
its caches in place, as onnxruntime-genai lets it do. onnxruntime-genai takes part where it is installed, and llama.cpp,
on a GGUF file of the same weights, where `llama-bench` is on the path and the package gguf installed; docs/decoders.md
says how both are had.

What a library for a board predicts is printed too: of rk3588's Cortex-A55 and A76, and of snapdragon-8-gen-1's
Cortex-X2. No board with a Cortex-X1 is known: its row is of that board with an X1 in the X2's place. Run it while
nothing else runs: two minutes.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.decoder_genai import write_genai
from bench.decoder_gguf import write_gguf
from bench.decoder_worker import RUNTIMES
from bench.interleaved import Worker, bound, when_loaded
from bench.jit import host_machine
from bench.record import facts, parser_with_json, write
from bench.records import ROOT
from bench.tables.catalogue import show_record
from examples.decoder.make_decoder import SIZES, Decoder
from mavcg.hosts.peak_loops import PeakLoop, peak_loop
from mavcg.specs.kernel import Machine

SCRIPT = ROOT / "bench" / "decoder_worker.py"
STATE = "past_key_values.*=present.*"
QUANTISED = 4  # accuracy_level
WITH_X1 = "assumed-with-x1"
BOARDS = (
    ("rk3588", "cortex-a55"),
    ("rk3588", "cortex-a76"),
    (WITH_X1, "cortex-x1"),
    ("snapdragon-8-gen-1", "cortex-x2"),
)
THREADS = (1, 2)
CONTEXT = 256
PEAK_ROUNDS = 5
WHOLE = "100m"  # the size that the record has
ABSENT = {
    "llama.cpp": "llama.cpp: no llama-bench on the path",
    "onnxruntime-genai": "onnxruntime-genai: its package is not installed",
}


def run_mavcg(*arguments: str, profiles: Path | None = None) -> str:
    """Run a mavcg command and return what it prints. profiles: a folder of more. Raises: CalledProcessError."""
    more = {} if profiles is None else {"MAVCG_PROFILES": str(profiles)}
    command = [sys.executable, "-m", "mavcg.cli", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | more).stdout


def add_board_with_x1(profiles: Path) -> Path:
    """Write a board to a folder of profiles: the Snapdragon 8 Gen 1 with a Cortex-X1 in its X2's place; return it."""
    text = (ROOT / "profiles" / "boards" / "snapdragon-8-gen-1.toml").read_text()
    for old, new in (('"snapdragon-8-gen-1"', f'"{WITH_X1}"'), ('core = "cortex-x2"', 'core = "cortex-x1"')):
        text = text.replace(old, new)
    (profiles / "boards").mkdir(parents=True)
    (profiles / "boards" / f"{WITH_X1}.toml").write_text(text)
    return profiles


def build(model: Path, library: Path, board: str, tokens: int = 1, profiles: Path | None = None) -> Path:
    """Build a library of some tokens a run for a board. profiles: as of run_mavcg."""
    arguments = [str(model), "--board", board, "--shape", f"input_ids=1x{tokens}", "--state", STATE]
    run_mavcg("build", *arguments, "-o", str(library), "--json", profiles=profiles)
    return library


def start_worker(runtime: str, model: Path, threads: int, prompt: bool) -> Worker:
    """Start a process that has loaded a model; it is stopped. Raises: RuntimeError."""
    command = [sys.executable, str(SCRIPT), str(model), "--runtime", runtime, "--threads", str(threads)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*command, *["--prompt"] * prompt], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    return when_loaded(Worker(runtime, process, threads))


def llama_rate(model: Path, threads: int, tokens: int, prompt: bool) -> float:
    """Return the tokens a second that llama-bench measures, whose process ends again."""
    counts = (tokens, 0) if prompt else (0, tokens)
    options = dict(zip(("-m", "-t", "-p", "-n", "-r", "-o"), (model, threads, *counts, 1, "json"), strict=True))
    command = ["llama-bench", *(str(part) for option in options.items() for part in option)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)[0]["avg_ts"])


def llama_fault(model: Path, tokens: int) -> str:
    """Return how llama-bench ends on a prompt, if it does not end well; else ""."""
    try:
        llama_rate(model, 1, tokens, True)
    except subprocess.CalledProcessError as error:
        return f"llama.cpp: no prompts; llama-bench ends with status {error.returncode}"
    return ""


def measure(models: dict[str, Path], tokens: int, rounds: int, peak: PeakLoop | None = None) -> list[dict[str, Any]]:
    """Return rows of medians: runtime, version, threads, tokens per second. models: file by runtime.

    peak: None: tokens are one by one; else all of a text are a prompt, and rows have the products that a core could
    make at most in the time of a token, by the round.
    """
    prompt = peak is not None
    workers = [
        start_worker(runtime, models[runtime], n, prompt) for runtime in RUNTIMES if runtime in models for n in THREADS
    ]
    llama = models.get("llama.cpp")
    rates: dict[tuple[str, int], list[float]] = {}
    peaks: dict[tuple[str, int], list[float]] = {}
    try:
        for number in range(rounds):
            bound(workers, number)
            first = number % len(workers)
            for worker in (*workers[first:], *workers[:first]):
                seconds = worker.ask(str(tokens))["seconds"]
                key = worker.runtime, worker.threads
                rates.setdefault(key, []).append(tokens / seconds)
                if peak is not None:
                    peaks.setdefault(key, []).append(peak.per_second() * seconds / tokens)
            if llama is not None:
                for threads in THREADS:
                    rate = llama_rate(llama, threads, tokens, prompt)
                    rates.setdefault(("llama.cpp", threads), []).append(rate)
        versions = {worker.runtime: worker.version for worker in workers}
    finally:
        for worker in workers:
            worker.end()
    return [
        {
            "runtime": versions.get(runtime, runtime),
            "threads": threads,
            "tokens_per_s": round(statistics.median(rate), 1),
            "from": round(min(rate), 1),
            "to": round(max(rate), 1),
            **({"peak_products": statistics.median(peaks[runtime, threads])} if (runtime, threads) in peaks else {}),
        }
        for (runtime, threads), rate in sorted(rates.items(), key=lambda item: (item[0][1], item[0][0]))
    ]


def with_share(row: dict[str, Any], products: int) -> dict[str, Any]:
    """Return a row of a prompt with the share of the peak of its cores. products: of weights, of a token."""
    if "peak_products" not in row:
        return row
    kept = {name: value for name, value in row.items() if name != "peak_products"}
    return kept | {"share": round(products / row["peak_products"] / row["threads"], 3)}


def peak_facts(machine: Machine, peak: PeakLoop) -> dict[str, Any]:
    """Return what the peak is made of: its instruction, and that of tiles with its products over the peak's, if any."""
    facts_of_peak: dict[str, Any] = {"instruction": peak.instruction}
    if machine.int8_tiles:
        tiles = peak_loop(machine, "i8")
        pairs = [tiles.per_second() / peak.per_second() for _ in range(PEAK_ROUNDS)]
        facts_of_peak |= {"tiles": tiles.instruction, "tiles_over_peak": round(statistics.median(pairs), 2)}
    return facts_of_peak


def predict(model: Path, folder: Path) -> list[dict[str, Any]]:
    """Return rows of predicted tokens per second, by one core and by the best number of the cluster's cores."""
    rows, profiles = [], add_board_with_x1(folder / "profiles")
    for board in dict.fromkeys(board for board, _ in BOARDS):
        library = build(model, folder / f"lib{board.replace('-', '_')}.so", board, profiles=profiles)
        for core in (core for of_board, core in BOARDS if of_board == board):
            options = ["--board", board, "--core", core, "--threads", "1", "--json"]
            predicted = json.loads(run_mavcg("estimate", str(library), *options, profiles=profiles))
            best = min(predicted["by_threads"].values())
            rates = (round(1e3 / ms, 1) for ms in (predicted["total_ms"], best))
            rows.append(
                dict(zip(("board", "core", "one_core_per_s", "cluster_per_s"), (board, core, *rates), strict=True))
            )
    return rows


def main() -> None:
    """Measure, print, and write bench/results/decoder.json for the usual size."""
    import onnx

    parser = parser_with_json(__doc__, "all rows instead of tables")
    parser.add_argument("--size", choices=SIZES, default=WHOLE)
    parser.add_argument("--tokens", type=int, default=64, help="of a round's text; at most 256")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="mavcg-decoder-") as name:
        folder, model = Path(name), Path(name) / "decoder.onnx"
        decoder = Decoder(SIZES[given.size], CONTEXT, 0, QUANTISED)
        made = decoder.model()
        onnx.save(made, model)
        tokens = min(given.tokens, CONTEXT)
        models = {"mavcg": build(model, folder / "libdecoder.so", "host"), "onnxruntime": model}
        if find_spec("onnxruntime_genai"):
            models["onnxruntime-genai"] = write_genai(decoder, made, folder / "genai")
        if shutil.which("llama-bench"):
            models["llama.cpp"] = write_gguf(decoder, folder / "decoder.gguf")
        prompts = models | {"mavcg": build(model, folder / "libprompt.so", "host", tokens)}
        absent = [text for runtime, text in ABSENT.items() if runtime not in models]
        if "llama.cpp" in prompts and (fault := llama_fault(prompts["llama.cpp"], tokens)):
            absent.append(fault)
            del prompts["llama.cpp"]
        products = decoder.weights - decoder.size.words * decoder.size.hidden  # without the table, which is looked up
        machine = host_machine()
        peak = peak_loop(machine, "i8", tiles=False)
        record = {
            **facts("measured", "bench.decoder"),
            "weights": decoder.weights,
            "tokens": tokens,
            "peak": peak_facts(machine, peak),
            "absent": absent,
            "rows": measure(models, tokens, given.rounds),
            "prompts": [with_share(row, products) for row in measure(prompts, tokens, given.rounds, peak)],
            "predicted": predict(model, folder),
        }
    if given.size == WHOLE and not given.json:
        write("decoder", record)
    show_record("decoder", record, given.json)


if __name__ == "__main__":
    main()
