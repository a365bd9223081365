"""Runs a program in a process of its own: for exits, forks, plugins and environment variables."""

import os
import subprocess
import sys
import textwrap


def run(program: str, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess:
    """The finished process; its output is text. `environment` is added to this process's."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def output_of(program: str, **environment: str) -> str:
    """What a program printed; fails the test with its stderr when it did not exit with 0."""
    done = run(program, **environment)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
