"""Simulators of the accelerator: the functional one computes bits, the cycle-accurate one counts cycles."""
