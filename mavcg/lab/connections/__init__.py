"""Connections to a farm's scheduler: addresses, the token that both sides show, and what Dask may do for others.

It knows no task and no engine. Where the next thing goes: how a process finds, trusts and limits another one on the
network is here; what is sent is in lab/jobs; what a verb runs on a farm is in lab/farm.
"""
