"""Processors as values: cores, boards, accelerators, targets, instruction classes and their timing."""
