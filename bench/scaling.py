#!/usr/bin/env python3
"""How training grows with ranks: `prenorm train` alone and under mpirun, in turn within one run, so
that all see the same machine. Each rank has one thread.

    bench/scaling.py --prenorm build/release/prenorm --ranks 2 [--rounds 3] [--steps 4]

Prints the best step of each, and how many times as many tokens a second the ranks reach as one
alone. docs/scaling.md says what to expect; --rate 200mbit puts each rank into a network namespace
of its own, with cables of that rate between them (needs root, ip and tc).
"""
import argparse
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

WORDS = "the a cat dog bird sees hears likes small green old and but or near under".split()
AGENT = """#!/bin/sh
space=prenorm-bench-${1##*.}; shift
exec ip netns exec "$space" unshare --uts sh -c "hostname $space; $*"
"""
NET = "10.213.78"


class Cables:
    """A namespace for each rank on one bridge, each cable of a given rate both ways."""

    def __init__(self, ranks, rate, folder):
        self.ranks, self.agent = ranks, folder / "agent"
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)
        self.remove()
        self.ip("netns add prenorm-bench-0")
        self.ip("-n prenorm-bench-0 link add bridge type bridge")
        self.ip("-n prenorm-bench-0 link set bridge up")
        shape = f"root tbf rate {rate} burst 256kb latency 200ms"
        for i in range(1, ranks + 1):
            space = f"prenorm-bench-{i}"
            self.ip(f"netns add {space}")
            self.ip(f"link add eth netns {space} type veth peer name port{i} "
                    "netns prenorm-bench-0")
            self.ip(f"-n {space} addr add {NET}.{i}/24 dev eth")
            for device in ("eth", "lo"):
                self.ip(f"-n {space} link set {device} up")
            self.ip(f"-n prenorm-bench-0 link set port{i} master bridge up")
            self.run(f"tc -n {space} qdisc add dev eth {shape}")
            self.run(f"tc -n prenorm-bench-0 qdisc add dev port{i} {shape}")

    @staticmethod
    def run(command, check=True):
        subprocess.run(shlex.split(command), check=check, capture_output=True)

    def ip(self, words):
        self.run("ip " + words)

    def remove(self):
        for i in range(self.ranks + 1):
            self.run(f"ip netns del prenorm-bench-{i}", check=False)

    def launcher(self):
        hosts = ",".join(f"{NET}.{i}:1" for i in range(1, self.ranks + 1))
        return ["ip", "netns", "exec", "prenorm-bench-1", "mpirun", "-H", hosts,
                "--bind-to", "none", "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "self,tcp",
                "--mca", "btl_tcp_if_include", NET + ".0/24",
                "--mca", "oob_tcp_if_include", NET + ".0/24"]


def steps(command, folder):
    """Seconds of each step after the first, from the run's own lines."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **allowed})
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    rows = [json.loads(line)["elapsed"] for line in (folder / "metrics.jsonl").open()]
    return [b - a for a, b in zip(rows, rows[1:])][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prenorm", default="build/release/prenorm")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--reduce", nargs="+", default=["exact", "fast"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rate", help="of the cables between ranks, as tc writes it: 200mbit")
    parser.add_argument("--shape", default="--n-layer 6 --n-head 6 --n-embd 384 --block-size 256 "
                        "--batch-size 12 --gradient-accumulation-steps 2")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = folder / "text.txt"
        text.write_text(" ".join(random.Random(1).choices(WORDS, k=30000)))
        run = folder / "run"
        train = [a.prenorm, "train", text, "--out-dir", run, "--force", *a.shape.split(),
                 "--max-iters", a.steps + 1, "--eval-interval", 0, "--val-fraction", 0,
                 "--log-interval", 1, "--warmup-iters", 1, "--threads", 1]
        train = [str(word) for word in train]
        best = {}

        def measure(key, command):
            seconds = min(steps(command, run))
            best[key] = min(seconds, best.get(key, seconds))

        for _ in range(a.rounds):
            measure("alone", train)
            for ranks in a.ranks:
                cables = Cables(ranks, a.rate, folder) if a.rate else None
                launcher = cables.launcher() if cables else ["mpirun", "--oversubscribe"]
                try:
                    for how in a.reduce:
                        measure((ranks, how), [*launcher, "-n", str(ranks), *train,
                                               "--reduce", how])
                finally:
                    if cables:
                        cables.remove()
        print(f"alone: {best['alone'] * 1e3:.0f} ms a step")
        for (ranks, how) in [key for key in best if key != "alone"]:
            seconds = best[ranks, how]
            print(f"{ranks} ranks, {how}: {seconds * 1e3:.0f} ms a step, "
                  f"{best['alone'] / seconds:.2f} times as fast")


if __name__ == "__main__":
    main()
