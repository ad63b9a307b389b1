#!/usr/bin/env python3
"""How long `prenorm diagnose` takes: seconds on the clock of the whole process, by class of run, on a
model of 6 layers and width 256.

    bench/diagnose_time.py --program build/release/prenorm             a few runs of each class
    bench/diagnose_time.py --program build/release/prenorm --all       every mistake, in every place
    bench/diagnose_time.py --program PROGRAM --only logits,2x64        classes whose names hold these

The runs are PyTorch's, of tests/python/mistaken_gpt.py. The least of --calls calls counts: what else
the machine does only adds to it. Answers are judged, too. Exits with 1 where a run takes more than
the limit or an answer is wrong. Needs PyTorch, transformers and safetensors.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
from diagnose_cases import (  # noqa: E402
    WHOLE_MODEL, Case, CleanCase, Folder, Shape, judge, mistakes_everywhere, random_pair)

LIMIT = 1.0  # seconds
TIED = Shape(n_layer=6, n_head=8, n_embd=256, vocab_size=1000, n_positions=160, time=64)
UNTIED = dataclasses.replace(TIED, tie_word_embeddings=False, activation_function="gelu")
BATCHES = ((2, 64), (4, 64), (1, 128))


def in_layer(shape, mistake, layer):
    """The same in one layer; a norm's in either norm of it, in turn."""
    block = f"transformer.h.{layer}"
    if mistake.name.startswith("norm.") and mistake.name != "norm.swapped-weights":
        return mistake._replace(where=f"{block}.ln_{1 + layer % 2}")
    return mistake._replace(where=block)


def classes(folder, pick, every):
    """(class, cases): `every` mistake or a few that differ in how they are searched."""
    shape = folder.shape
    whole = mistakes_everywhere(shape)
    few = whole if every else pick.sample(whole, 8)
    places = [m for m in whole if m.name not in WHOLE_MODEL and not m.name.endswith("tied-head")]
    sample = places if every else pick.sample(places, 6)
    pairs = [random_pair(folder, pick)[0] for _ in range(24 if every else 6)]
    for stages in (False, True):
        yield "clean", [CleanCase(folder, d, stages, "eager") for d in ("float32", "float16")]
        yield "everywhere", [Case(folder, [m], stages=stages) for m in few]
        for layer in (0, shape.n_layer // 2, shape.n_layer - 1):
            yield f"in layer {layer}", [Case(folder, [in_layer(shape, m, layer)], stages=stages)
                                        for m in sample]
        yield "pairs", [Case(folder, pair, stages=stages) for pair in pairs]
        yield "bfloat16", [Case(folder, [m], "bfloat16", stages) for m in few]


def timed(program, case, directory, calls):
    """The least seconds of that many calls, and what is wrong with the answer."""
    command = [program, *map(str, case.write(directory))]
    least = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        least = min(least, time.perf_counter() - start)
    if done.returncode not in (0, 1):
        return least, done.stderr.strip()
    return least, judge(case, json.loads(done.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--all", action="store_true", help="every mistake")
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of the names of classes, all of which match")
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program, failed, all_seconds = str(pathlib.Path(options.program).resolve()), False, []
    print(f"{'class':44}{'runs':>6}{'median':>8}{'most':>8}   the slowest")
    with tempfile.TemporaryDirectory() as work:
        for shape in (TIED, UNTIED):
            for batch, length in BATCHES:
                sized = dataclasses.replace(shape, batch=batch, time=length)
                head = "tied" if shape is TIED else "untied"
                folder = Folder(pathlib.Path(work) / f"{head}{batch}", sized, seed=5)
                for what, cases in classes(folder, random.Random(21), options.all):
                    ends = "stages" if cases[0].stages else "logits"
                    name = f"{what}, {ends}, {head}, {batch}x{length}"
                    if not all(part in name for part in options.only.split(",")):
                        continue
                    seconds = []
                    for case in cases:
                        took, wrong = timed(program, case, pathlib.Path(work) / "run",
                                            options.calls)
                        seconds.append((took, str(case)))
                        if options.verbose:
                            print(f"    {took:.3f} {case} {wrong}", flush=True)
                        if wrong and case.dtype == "float32" and what != "pairs":
                            failed = True
                            print(f"wrong: {case}: {wrong}", file=sys.stderr)
                    most, slowest = max(seconds)
                    failed = failed or most > LIMIT
                    all_seconds += [s for s, _ in seconds]
                    middle = statistics.median(s for s, _ in seconds)
                    print(f"{name:44}{len(seconds):6}{middle:8.2f}{most:8.2f}   {slowest}", flush=True)
    print(f"{len(all_seconds)} runs: median {statistics.median(all_seconds):.2f} s,"
          f" most {max(all_seconds):.2f} s (at most {LIMIT:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
