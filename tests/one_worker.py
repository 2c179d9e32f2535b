"""Builds in the tests' own processes that name no number of jobs have one, which is this process.

A forked worker of a test process begins with a copy of hundreds of megabytes, and the tests run in as many processes as
there are CPUs. Builds with more jobs are run by command lines in processes of their own, and by tests that name jobs.
"""

import pytest

from mavcg.toolchain import codegen

pytest.MonkeyPatch().setattr(codegen, "default_workers", lambda: 1)
