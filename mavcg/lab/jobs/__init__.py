"""Engines that run many jobs, here in processes or on a farm of other machines."""
