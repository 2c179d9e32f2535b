"""Measuring and simulating beside the builds: simulators, trials of primitives, runners on boards, fleets and farms.

No build needs it; only commands import it, and the other tenants what they share (lab.jobs, lab.connections).
"""
