"""Handlers of TFLite operators, by family."""
