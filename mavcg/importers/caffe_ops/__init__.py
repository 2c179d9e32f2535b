"""Handlers of Caffe's layers, a module per family; table.py lists them."""
