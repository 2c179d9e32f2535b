"""Compiled programs of an accelerator: as values, as ELF files, and as assembly text."""
