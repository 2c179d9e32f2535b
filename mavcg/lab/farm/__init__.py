"""Many models for many boards built at once, equal kernels compiled once; and the scheduler and workers of a farm.

Where the next thing goes:

- Task of workers: a function of typed values, named in mavcg/lab/jobs/remote_tasks.py with the check of its answer;
  those of builds are in library_tasks.py and library_checks.py (docs/security.md).
- Where a farm is found, and who may speak to it: mavcg/lab/connections.
"""
