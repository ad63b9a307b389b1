#!/usr/bin/env python3
"""How much a training step slows down when another process keeps one core busy.

    bench/contention.py --prenorm build/prenorm [--python .venv/bin/python] [--shape NAME …]

The other process is bound to one core and gets some share of all cores' time; a step that loses no
more than that takes 1 / (1 − share) times as long. With --python, PyTorch's step beside ours. A
machine on which nothing else runs, with as many threads as cores.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

from compare_training import SHAPES, commands
from processes import lines_of


class Competitor:
    """A process that keeps one core busy; afterwards `share` says how much of all cores it got."""

    def __init__(self, core):
        self.core = core

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                        preexec_fn=lambda: os.sched_setaffinity(0, {self.core}))
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.process.kill()
        _, _, usage = os.wait4(self.process.pid, 0)
        wall = time.perf_counter() - self.start
        self.share = (usage.ru_utime + usage.ru_stime) / (wall * len(os.sched_getaffinity(0)))
        self.process.returncode = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prenorm", default="build/prenorm")
    parser.add_argument("--python", help="PyTorch's interpreter, to measure its step too")
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["width128", "width384"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    a = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    machine = ["--threads", str(len(cores)), "--seconds", str(a.seconds)]
    for shape in a.shape:
        flags = SHAPES[shape].split() + machine
        for name, command in commands(a.prenorm, a.python).items():
            alone, beside, shares = [], [], []
            for _ in range(a.rounds):
                alone.append(lines_of([*command, *flags])[-1]["step_ms_median"])
                with Competitor(cores[-1]) as competitor:
                    beside.append(lines_of([*command, *flags])[-1]["step_ms_median"])
                shares.append(competitor.share)
            slower = statistics.median(beside) / statistics.median(alone)
            share = statistics.median(shares)
            print(f"{shape:9} {name:8} alone {statistics.median(alone):8.2f} ms, beside "
                  f"{statistics.median(beside):8.2f} ms: {slower:.2f} ×; the other had "
                  f"{100 * share:.0f} % of all cores: {1 / (1 - share):.2f} × expected", flush=True)


if __name__ == "__main__":
    main()
