"""The verbs of `mavcg accel`: networks compiled for accelerators with an instruction set."""
