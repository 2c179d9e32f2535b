"""Providers of groups' costs: computed by running code, kept in a file, learned; the model's are in fusion/costs.py.

Where the next thing goes:

- Provider of costs: a class with the methods of GroupCosts (fusion/costs.py), its name in providers.py.
"""
