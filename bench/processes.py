"""Runs the programs that are compared."""
import json
import subprocess
import sys
import time


def output_of(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def lines_of(command):
    return [json.loads(line) for line in output_of(command).splitlines() if line.startswith("{")]


def seconds_of(command, calls):
    """The least time of the whole process."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        output_of(command)
        times.append(time.perf_counter() - start)
    return min(times)
