"""What becomes of each operator of TFLite: a handler for each, by families."""
