"""Titles, texts and tables of all records, made from what a bench measured.

catalogue.py has them by the record's name; `python -m bench.tables NAME` prints a record whole. Where the next table
goes: the module here of what it is about, and its TABLES; that of an accelerator, a GPU or a planner into
bench/accelerators.
"""
