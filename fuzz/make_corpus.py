"""Write the corpora that targets begin with: `python -m fuzz.make_corpus`; inputs added by hand stay."""

import json
from collections.abc import Iterator
from pathlib import Path

from bench.fuzz_seeds import caffe_network, float_network, qdq_network, tflite_network
from fuzz.corpus_binaries import binary_corpora
from fuzz.corpus_calls import call_corpora
from fuzz.corpus_files import perf_corpora, text_corpora
from mavcg.files.whole_file import write_whole

CORPUS = Path(__file__).parent / "corpus"
ENVIRONMENT = b"=proc/self/environ\nMAVCG_TRACE=1\0MAVCG_CPU_MAP=0=a\0\n"
BOARDS = Path(__file__).parents[1] / "tests/boards"

PLAN = """\
[layer conv]
[info]
INPUT(1,2,4,4)
WEIGHT(4,2,3,3)
OUTPUT(1,4,4,4)
PADS(1,1,1,1)
[var]
IN_MEM_0(64)
WT_MEM_0(144)
OT_MEM_0(128)
INPUT_0[0](1,2,4,4)
WEIGHT_0[0](4,2,3,3)
OUTPUT_0[0](1,4,4,4)
[text]
LOAD IN_MEM_0 INPUT_0
LOAD WT_MEM_0 WEIGHT_0
CONV OUTPUT_0 INPUT_0 WEIGHT_0 1 (1,1,1,1)
RELU OUTPUT_0
STORE OUTPUT_0 OT_MEM_0
"""
LOOP = """\
\t.text
\t.globl scale
\t.type scale, %function
scale:
\tcbz x2, .Lend
.Lloop:
\tldr q0, [x0], #16
\tldp q1, q2, [x1], #32
\tfmla v3.4s, v0.4s, v1.s[0]
\tfmul v2.4s, v2.4s, v0.4s
\tstr q2, [x3], #16
\tsubs x2, x2, #1
\tb.ne .Lloop
.Lend:
\tret
\t.size scale, . - scale
"""
SIMPLEPERF = """\
Cmdline: /system/bin/simpleperf record -g -- ./label_image
Arch: arm64
Event: cpu-cycles (type 0, config 0)
Samples: 200
Event count: 1000000

Overhead,Sample,Shared Object,Symbol
60.00%,120,/data/l.so,f
40.00%,80,/data/l.so,g
"""
PERF_REPORT = """\
# To display the perf.data header info, please use --header/--header-only options.
#
# Samples: 40  of event 'cycles'
# Event count (approx.): 40000
#
# Overhead  Command  Shared Object  Symbol
# ........  .......  .............  ..........
#
    60.00%  app      app            [.] conv
    40.00%  app      libm.so.6      [.] expf
"""
PERF_SCRIPT = """\
app 411 [001] 12.5:     250000 cycles:u:      55d0 conv+0x10 (/home/u/app)
app 411 [002] 12.6:     250000 cycles:u:      55f0 relu+0x4 (/home/u/app)
app 411 [001] 12.7:     250000 cycles:u:
                    55d0 conv+0x10 (/home/u/app)
                    5100 main+0x80 (/home/u/app)

"""
CALLGRIND = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd: ./app
positions: line
events: Ir
fl=(1) app.c
fn=(1) conv
16 400
cfn=(2) relu
calls=2 30
+3 50
fn=(2)
30 100
totals: 500
"""
BUILD_FILE = """\
[build]
sources = ["ops/*.c"]
flags = ["-O3"]
hot = ["conv*"]
cores = ["cortex-a55", "cortex-a76"]
output = "libops.so"
max_growth = 5.5
"""
PROJECT_FILE = """\
profile.build = ["make"]
profile.command = ["./app", "a b"]
profile.frequency = 500
build.sources = ["src/*.c"]
build.only_hot = false
[[model]]
file = "net.onnx"
board = "host"
threads = "auto"
max_size = 4000000
[[model]]
file = "face.tflite"
shapes = ["input=1x3x8x8"]
"""


def corpora() -> Iterator[tuple[str, str, bytes]]:
    """Target, file name, bytes."""
    yield "onnx_file", "float_network", float_network()
    yield "onnx_file", "qdq_network", qdq_network()
    yield "tflite_file", "float_network", tflite_network(False)
    yield "tflite_file", "int8_network", tflite_network(True)
    yield "caffe_file", "network", caffe_network()
    yield "caffe_file", "old_spelling", caffe_network(old=True)
    yield "plan_text", "conv", PLAN.encode()
    yield "assembly", "loop", LOOP.encode()
    for name, text in (("simpleperf", SIMPLEPERF), ("report", PERF_REPORT), ("script", PERF_SCRIPT)):
        yield "profile_text", name, text.encode()
    yield "profile_text", "callgrind", CALLGRIND.encode()
    yield "build_file", "program", BUILD_FILE.encode()
    yield "build_file", "project", PROJECT_FILE.encode()
    yield from c_corpora()
    yield from call_corpora()
    yield from text_corpora()
    yield from perf_corpora(PERF_SCRIPT, PERF_REPORT)
    for target, name, data in binary_corpora():
        yield target, name, data
        if target == "accel_program" and data.startswith(b"\x7fELF"):
            yield "accel_image", name, b"\0" + data
    yield (
        "compile_commands",
        "two_units",
        json.dumps(
            [
                {"directory": "/src", "file": "a.c", "command": "ccache gcc -O2 -DX='1 2' -Iinc -o a.o -c a.c"},
                {
                    "directory": "/src",
                    "file": "b.cpp",
                    "output": "b.o",
                    "arguments": ["c++", "-std=c++17", "-march=armv8.2-a+dotprod", "-isystem", "/inc", "-c", "b.cpp"],
                },
            ],
            indent=1,
        ).encode(),
    )


def c_corpora() -> Iterator[tuple[str, str, bytes]]:
    """Inputs of the C targets: what boards were recorded to say, and calls by number."""
    for board in ("rk3399", "alder-lake", "odd-hotplug"):
        parts = [
            b"=map\n0-1=cortex-a55,all=generic\n=trace\n1,cpus\n",
            b"=proc/self/environ\nMAVCG_TRACE=1\0MAVCG_CPU_MAP=0=a\0\n",
        ]
        root = BOARDS / board
        for path in sorted(each for each in root.rglob("*") if each.is_file()):
            name = path.relative_to(root).as_posix()
            if name.startswith(("proc/cpuinfo", "sys/")) and "cpufreq" not in name:
                parts.append(f"={name}\n".encode() + path.read_bytes()[:600].rstrip(b"\n") + b"\n")
        yield "selector", board, b"".join(parts)[:4096]
    yield "chunks", "unequal", bytes.fromhex("0000c350 00000008 0004 0100 0100 0040 0030 00") + bytes(range(64))
    yield "chunks", "large", bytes.fromhex("7ffffff0 00010000 0010") + bytes(range(200))
    yield "accel_image", "as_it_is", b"\1"
    yield "accel_image", "header", b"\1" + bytes.fromhex("0028 08 0000000000000040 003c 02 0009")
    # create with 2 threads, run, profile, run with sizes, cancel, threads, destroy; then odd options and pointers
    yield "engine", "usual", bytes.fromhex("0002 060000 070100 060200 03 04 02")
    yield "engine", "odd", bytes.fromhex("8000000401 0100 0003 06 00ff 0100 07 30fe 0203 0a 0600 06 0201ff 05 fffffff9")


def main() -> None:
    """Write every file of the corpora."""
    for target, name, data in corpora():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        write_whole(CORPUS / target / name, data)


if __name__ == "__main__":
    main()
