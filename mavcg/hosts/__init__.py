"""This machine: its identity, cores and caches; facts that the system does not list are measured."""
