"""Schedulers: list scheduling, iterative and exact modulo scheduling, software pipelining."""
