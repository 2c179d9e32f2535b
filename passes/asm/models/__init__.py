"""Pipeline models: cycles of straight-line code and loops on in-order and out-of-order cores."""
