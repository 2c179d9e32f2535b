"""Limits that a choice of algorithms keeps: bytes of a context's buffers (arena_limit), of images that are live at once
(limited, arena_need), and of packed weights (weight_limit).
"""
