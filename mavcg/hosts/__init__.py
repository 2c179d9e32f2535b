"""This machine: its identity, cores and caches; facts are measured where the system does not list them."""
