"""Commands for accelerators: `mavcg plan` and `explore`, and in accel/ those of `mavcg accel`."""
