"""Plans as text: the intermediate representation of e-PlaNNer, chapter 7, with extensions.

Where the next thing goes:

- Command of plans as text: plan, printer, parser, verify, interpret, c_backend (docs/plan-text.md).
"""
