"""Starts `prenorm train` under mpirun for the tests, and finds its processes."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

TIMES = ("tokens_per_second", "elapsed")


def environment():
    """Open MPI refuses root, which containers run as, unless it is told twice."""
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("PRENORM_", "OMPI_", "PMIX_"))}
    return {**clean, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def require_mpi(program):
    if shutil.which("mpirun") is None or not (program.path.parent / "prenorm_mpi.so").exists():
        pytest.skip("no Open MPI, or a build without it")


class Job:
    """A job of `ranks` ranks that is running."""

    def __init__(self, program, ranks, arguments, log, launcher=()):
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), *launcher, str(program.path),
                   *map(str, arguments)]
        self.log = Path(log)
        self.out_dir = str(arguments[list(arguments).index("--out-dir") + 1])
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, env=environment())

    def wait(self, timeout=90):
        code = self.process.wait(timeout)
        return code if code >= 0 else 128 - code

    def text(self):
        return self.log.read_text(errors="replace")

    def until(self, words, timeout=60):
        end = time.monotonic() + timeout
        while words not in self.text():
            assert self.process.poll() is None and time.monotonic() < end, self.text()[-2000:]
            time.sleep(0.02)

    def rank_pid(self, rank):
        return self.pids()[rank]

    def pids(self):
        """Process of each rank that lives."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if self.out_dir.encode() not in words or words[0].endswith(b"mpirun"):
                    continue
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(variable.split(b"=")[1])] = int(folder.name)
        return found

    def all_gone(self, timeout=3):
        end = time.monotonic() + timeout
        while self.pids() and time.monotonic() < end:
            time.sleep(0.05)
        return not self.pids()

    def kill(self):
        for pid in self.pids().values():
            os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def metrics(folder):
    """The lines of a run without the times."""
    rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").open()]
    for row in rows:
        for time_of_day in TIMES:
            row.pop(time_of_day, None)
    return rows
