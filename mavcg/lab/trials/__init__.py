"""Run primitives on generated scenarios, on this machine or an emulated core, to check them or to time them."""
