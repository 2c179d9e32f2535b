"""Run a model library for AArch64 under qemu, with inputs and outputs between guard pages."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bench.differential.part import Array
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.zig import run_zig

TARGET = "aarch64-linux-gnu"
SYSROOT = Path("/usr/aarch64-linux-gnu")  # of Debian's libc6-arm64-cross
CORES = ("cortex-a55", "cortex-a76")
RUN_SECONDS = 300.0
_DRIVER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "engine_api.h"

enum { PAGE = 65536 };

/* Memory that ends where a page begins that nobody may touch, or begins where one ends. */
static char *guarded(size_t bytes, int at_end) {
    size_t inner = (bytes + PAGE - 1) / PAGE * PAGE;
    if (!inner) inner = PAGE;
    char *base = mmap(NULL, inner + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base, PAGE, PROT_NONE) || mprotect(base + PAGE + inner, PAGE, PROT_NONE))
        exit(3);
    return base + PAGE + (at_end ? inner - bytes : 0);
}

int main(int argc, char **argv) {
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    const mavcg_model_table *(*api)(void) = (const mavcg_model_table *(*)(void))dlsym(library, "mavcg_model_api");
    const mavcg_model_table *table = api();
    int at_end = atoi(argv[2]);
    const void **inputs = calloc(table->input_count + 1, sizeof *inputs);
    void **outputs = calloc(table->output_count + 1, sizeof *outputs);
    for (unsigned i = 0; i < table->input_count; i++) {
        char *memory = guarded(table->inputs[i].bytes, at_end);
        if (fread(memory, 1, table->inputs[i].bytes, stdin) != table->inputs[i].bytes) return 4;
        inputs[i] = memory;
    }
    for (unsigned i = 0; i < table->output_count; i++) {
        outputs[i] = guarded(table->outputs[i].bytes, at_end);
        memset(outputs[i], 0xA5, table->outputs[i].bytes);
    }
    mavcg_options options = {.threads = 1};
    void *context;
    int status = table->create(&options, &context);
    if (!status) status = table->run(context, inputs, outputs);
    if (status) { fprintf(stderr, "%s\n", table->error_text(status)); return 5; }
    for (unsigned i = 0; i < table->output_count; i++)
        if (fwrite(outputs[i], 1, table->outputs[i].bytes, stdout) != table->outputs[i].bytes) return 6;
    return fclose(stdout) ? 6 : 0;
}
"""


@cache
def emulator() -> str | None:
    """Return the emulator of AArch64 programs if it and a C library for them are installed."""
    if not SYSROOT.is_dir():
        return None
    return shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def make_driver(folder: Path) -> Path:
    """Compile the program that loads a library, in a folder. Raises: ToolError."""
    (folder / "driver.c").write_text(_DRIVER)
    words = ["-target", TARGET, "-O1", "-I", str(SOURCES), "driver.c", "-o", "driver"]
    run_zig("cc", words, "linking the driver of an emulated library", folder)
    return folder / "driver"


def run_arm(
    driver: Path, library: Path, version: str, inputs: Sequence[Array], like: Sequence[Array], at_end: bool
) -> list[Array] | str:
    """Return the outputs of one version under qemu, of the shapes and types of `like`, or why it failed."""
    command = [str(emulator()), "-L", str(SYSROOT), "-cpu", "max", str(driver), str(library), str(int(at_end))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
    try:
        done = subprocess.run(
            command,
            env=environment | {"MAVCG_CPU_MAP": f"*={version}"},
            timeout=RUN_SECONDS,
            capture_output=True,
            input=b"".join(np.ascontiguousarray(x).tobytes() for x in inputs),
        )
    except subprocess.TimeoutExpired:
        return f"{version}: took more than {RUN_SECONDS:g} s"
    if done.returncode or len(done.stdout) != sum(x.nbytes for x in like):
        return f"{version}: ended with status {done.returncode}: {done.stderr.decode(errors='replace')[-200:].strip()}"
    results, at = [], 0
    for x in like:
        results.append(np.frombuffer(done.stdout, x.dtype, x.size, at).reshape(x.shape))
        at += x.nbytes
    return results
