"""Flags of static programs for emulated processors: a link form whose support libraries set-up has built.

ziglang builds its C library anew for other forms, a minute of CPU time each (scripts/warm_toolchain.py).
"""

from mavcg.toolchain.zig import PLAIN_CODE_FLAGS

STATIC = ("-static", "-O2", *PLAIN_CODE_FLAGS, "-ffunction-sections", "-Wl,--gc-sections", "-s")
