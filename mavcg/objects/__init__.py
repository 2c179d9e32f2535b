"""Object files and libraries: linked, inspected, listed in a bill of materials (ELF and Mach-O).

Where the next thing goes:

- Option of the link: link_options.py: options passed on, options refused with reasons (docs/linking.md).
- Extension of AArch64: its encodings in code_extensions.py, its kernel bits in mavcg/hardware/extensions.py
  (docs/runtime.md).
"""
