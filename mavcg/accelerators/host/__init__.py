"""The host side of an accelerator: its C runtime called from Python, and the CPU parts as model libraries."""
