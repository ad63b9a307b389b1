#!/usr/bin/env python3
"""Our training step beside PyTorch's, in turn within one run, so that both see the same machine.

    bench/compare_training.py --prenorm build/prenorm --python .venv/bin/python [--shape NAME …]
    bench/compare_training.py --dtype bf16 …      # ours with --dtype bf16, PyTorch's under autocast

For each shape, several rounds of (ours, PyTorch eager, PyTorch compiled where asked); prints the
best and median step of each, the ratio (above 1: we are faster), and the peak memory of each.
"""
import argparse
import json
import pathlib
import statistics

from processes import lines_of

SHAPES = {
    "width128": "--n-layer 4 --n-head 4 --n-embd 128 --block-size 64 --batch-size 12 --vocab-size 65",
    "width384": "--n-layer 6 --n-head 6 --n-embd 384 --block-size 256 --batch-size 16 --vocab-size 65",
    "gpt2": "--n-layer 12 --n-head 12 --n-embd 768 --block-size 256 --batch-size 4 --vocab-size 50257",
    "gpt2-1024":
        "--n-layer 12 --n-head 12 --n-embd 768 --block-size 1024 --batch-size 4 --vocab-size 50257",
}


def commands(prenorm, python, *, compiled=False):
    """What takes a step of each contender, whose flags follow; without a `python` of ours alone."""
    found = {"prenorm": [prenorm, "bench", "train", "--json"]}
    if python:
        found["torch"] = [python, str(pathlib.Path(__file__).with_name("torch_step.py"))]
    if compiled:
        found["torch compiled"] = [*found["torch"], "--compile"]
    return found


class Steps:
    """A shape's training step by contender ("prenorm", "torch", "torch compiled"): the best and the
    median in milliseconds, the peak memory in MB, and what each round printed."""

    def __init__(self, shape, prenorm, python, *, compiled, rounds, machine, dtype="f32"):
        flags = [*SHAPES[shape].split(), *machine, "--dtype", dtype]
        contenders = commands(prenorm, python, compiled=compiled)
        self.rounds = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, command in contenders.items():
                self.rounds[name].append(lines_of([*command, *flags])[-1])
        of = self.rounds.items()
        self.best = {n: min(r["step_ms_min"] for r in rs) for n, rs in of}
        self.median = {n: statistics.median(r["step_ms_median"] for r in rs) for n, rs in of}
        self.memory = {n: max(r["peak_rss_mb"] for r in rs) for n, rs in of}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prenorm", default="build/prenorm")
    parser.add_argument("--python", default=".venv/bin/python")
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["width128", "width384"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of the products")
    parser.add_argument("--json", action="store_true", help="one JSON object a shape")
    a = parser.parse_args()
    machine = ["--threads", str(a.threads), "--seconds", str(a.seconds)]
    for shape in a.shape:
        steps = Steps(shape, a.prenorm, a.python, compiled=a.compile, rounds=a.rounds,
                      machine=machine, dtype=a.dtype)
        best, median, memory = steps.best, steps.median, steps.memory
        if a.json:
            print(json.dumps({"shape": shape, "best_ms": best, "median_ms": median,
                              "peak_rss_mb": memory}), flush=True)
            continue
        print(f"{shape}: {SHAPES[shape]}, {a.threads} threads, {a.dtype}")
        for name in best:
            print(f"  {name:15} best {best[name]:9.2f} ms  median {median[name]:9.2f} ms  "
                  f"{memory[name]:6.0f} MB   ours is {best[name] / best['prenorm']:.2f} × (best), "
                  f"{median[name] / median['prenorm']:.2f} × (median)", flush=True)


if __name__ == "__main__":
    main()
