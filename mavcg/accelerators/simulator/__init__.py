"""Simulators of the accelerator: the functional one computes results, the cycle-accurate one counts cycles."""
