"""Handlers of Caffe's layers, by family; `table` finds them."""
