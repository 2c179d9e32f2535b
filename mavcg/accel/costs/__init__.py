"""Providers of groups' costs beyond the model and the simulator: kept in a file, learned, measured on a device."""
