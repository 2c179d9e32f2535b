"""This machine: what it is, its cores and caches; facts measured where the system does not say them."""
