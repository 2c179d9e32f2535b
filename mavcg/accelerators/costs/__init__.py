"""Providers of groups' costs besides the model and the simulator: kept in a file, learned, measured on a device."""
