"""Flags of gcc's sanitizers for the engine's test programs."""

import subprocess
from collections.abc import Callable

Run = Callable[..., subprocess.CompletedProcess[str]]
TSAN = ("-fsanitize=thread", "-DSANITIZED")
ASAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DSANITIZED")
