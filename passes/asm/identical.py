"""Whether two versions came out as the same machine code: their assembly, but for the names of the versions."""

import re


def without_label(asm: str, label: str) -> str:
    """The assembly with every symbol suffix `.label` made neutral and comments dropped; equal texts assemble to
    equal code.

    f.cortex-a55:              f.*:
      b helper.cortex-a55  ->    b helper.*
    """
    neutral = re.sub(rf"\.{re.escape(label)}(?![-\w$])", ".*", asm)
    lines = (line.rstrip() for line in neutral.split("\n"))
    return "\n".join(line for line in lines if line and not line.lstrip().startswith(("#", "//", ".file", ".ident")))
