"""The five networks of the e-PlaNNer thesis, as graphs built by code."""
