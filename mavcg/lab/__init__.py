"""Measuring and simulating beside the builds: simulators, trials of primitives, runners on boards, fleets and farms.

No build needs it; only commands and the tenants' jobs (lab.jobs) import it.
"""
