#!/usr/bin/env python3
"""What `prenorm diagnose` says about runs of PyTorch with a known mistake inside, and about clean ones;
makes docs/confusion.md.

    bench/confusion.py --program build/release/prenorm --write docs/confusion.md
    bench/confusion.py --program build/release/prenorm --quick        prints the page, on fewer cases
    bench/confusion.py --program build/release/prenorm --keep DIR     keeps the files of wrong answers

Needs PyTorch, transformers and safetensors. Exits with 1 where a target is missed. The runs are made by
tests/python/mistaken_gpt.py, the models and what a right answer is by tests/python/diagnose_cases.py.
"""

import argparse
import json
import pathlib
import random
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
from confusion_page import page  # noqa: E402
from diagnose_cases import (  # noqa: E402
    Case, CleanCase, Folder, Shape, judge, mistakes_everywhere, mistakes_in_one_place, random_pair)
from mistaken_gpt import Mistake  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

PATIENCE = 20  # seconds of processor time of a call
MODELS = {
    "A": Shape(batch=4),
    "B": Shape(n_layer=3, n_head=3, n_embd=48, n_inner=48, activation_function="gelu",
               tie_word_embeddings=False, vocab_size=89, time=20),
    "C": Shape(n_layer=6, n_head=8, n_embd=64, weights="outliers", activation_function="relu",
               vocab_size=129, batch=4, layer_norm_epsilon=1e-6),
}


def run(command):
    """The process, and its seconds on the clock and of processor time, of all its threads: these are
    not those of what else the machine does."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))

    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Answer:
    """One call of the program."""

    def __init__(self, section, case, wrong, found, command):
        self.section, self.case, self.wrong, self.found = section, case, wrong, found
        self.command = command

    def named(self):
        """What the program said, in a few words."""
        if not isinstance(self.found, dict):
            return str(self.found)
        names = [m["name"] for m in self.found["mistakes"]]
        status = self.found["status"]
        return " + ".join(names) if status == "named" else " ".join([status, *names])


class Examiner:
    """Asks the program and keeps what is wrong."""

    def __init__(self, program, work, keep):
        self.program, self.work, self.keep = program, work, keep
        self.answers = []

    def ask(self, section, case):
        number = f"{len(self.answers):05}"
        directory = self.work / number
        arguments = [str(a) for a in case.write(directory)]
        done = run([self.program, *arguments])[0]
        found, wrong = self.read(case, done)
        command = shlex.join([self.program, *arguments])
        if wrong and self.keep:
            kept = self.keep / number
            shutil.copytree(directory, kept, dirs_exist_ok=True)
            model = self.keep / f"model-{pathlib.Path(case.folder.path).name}"
            shutil.copytree(case.folder.path, model, dirs_exist_ok=True)
            command = command.replace(str(directory), str(kept))
            command = command.replace(str(case.folder.path), str(model))
            (kept / "command.txt").write_text(f"{command}\n# {case}\n# {wrong}\n")
        shutil.rmtree(directory)
        self.answers.append(Answer(section, case, wrong, found, command))
        if wrong:
            print(f"WRONG {section}: {case}: {wrong}\n    {command}", file=sys.stderr, flush=True)

    @staticmethod
    def read(case, done):
        if done.returncode < 0:
            return "no answer", f"no answer, signal {-done.returncode}"
        if done.returncode not in (0, 1):
            return f"exit code {done.returncode}", done.stderr.strip()[:300] or "crashed"
        try:
            found = json.loads(done.stdout)
        except json.JSONDecodeError:
            return "no JSON", done.stdout[:200]
        if (done.returncode == 0) != (found["status"] == "equal"):
            return found, f"exit code {done.returncode} with {found['status']}"
        return found, judge(case, found)


def both(examiner, section, folder, mistakes, dtype):
    fused = len(examiner.answers) % 4 < 2  # in turn
    for stages in (False, True):
        where = "stages" if stages else "logits"
        examiner.ask(f"{section}, {dtype}, {where}", Case(folder, mistakes, dtype, stages, fused))


def singles(examiner, folders, quick):
    pick = random.Random(11)
    for folder in folders[:1] if quick else folders:
        whole = mistakes_everywhere(folder.shape)
        for mistake in [*whole, *mistakes_in_one_place(folder.shape, pick)]:
            both(examiner, "one mistake", folder, [mistake], "float32")
        for mistake in whole:
            both(examiner, "one mistake", folder, [mistake], "bfloat16")


def pairs(examiner, folders, quick):
    pick = random.Random(12)
    drawn = 0
    for i in range(30 if quick else 300):
        folder = folders[i % len(folders)]
        pair, tries = random_pair(folder, pick)
        drawn += tries
        both(examiner, "two mistakes", folder, pair, "float32")
    for i in range(6 if quick else 60):
        pair, _ = random_pair(folders[i % len(folders)], pick, one_place=True)
        both(examiner, "two mistakes, one in one place", folders[i % len(folders)], pair, "float32")
    return drawn


class ProbeFolder(Folder):
    """The probe that the program writes, in place of a model of ours."""

    def __init__(self, path):
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        known = {k: config[k] for k in Shape.__dataclass_fields__ if k in config}
        self.path, self.shape, self.runs = path, Shape(**known), {}
        self.ids = load_file(path / "input.safetensors")["input_ids"]


def probe(examiner, quick):
    path = examiner.work / "probe"
    subprocess.run([examiner.program, "diagnose", "--emit-probe", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    folder = ProbeFolder(path)
    pick = random.Random(13)
    whole = mistakes_everywhere(folder.shape)
    more = [] if quick else list(mistakes_in_one_place(folder.shape, pick))
    for mistake in [*whole, *more]:
        place = "probe" if mistake.where == "everywhere" else "probe, in one place"
        both(examiner, place, folder, [mistake], "bfloat16")


def random_shape(pick):
    heads = pick.choice([1, 2, 3, 4, 8])
    width = heads * pick.choice([16, 24, 32, 48] if heads < 5 else [8, 16, 24, 32])
    return Shape(
        n_layer=pick.randint(1, 6), n_head=heads, n_embd=width,
        vocab_size=pick.choice([17, 64, 101, 256, 1000]), n_positions=64,
        n_inner=pick.choice([None, None, width, 2 * width]),
        activation_function=pick.choice(["gelu_new", "gelu_new", "gelu", "gelu_pytorch_tanh",
                                         "relu"]),
        layer_norm_epsilon=pick.choice([1e-5, 1e-5, 1e-6, 1e-12]),
        tie_word_embeddings=pick.random() < 0.7,
        weights=pick.choice(["initial", "trained", "outliers"]), bias=pick.random() < 0.7,
        batch=pick.randint(1, 3), time=pick.randint(2, 64))


def clean(examiner, quick):
    pick = random.Random(14)
    for i in range(20 if quick else 200):
        folder = Folder(examiner.work / f"clean{i}", random_shape(pick), seed=100 + i)
        dtype = pick.choice(["float32", "float32", "bfloat16", "float16"])
        case = CleanCase(folder, dtype, pick.random() < 0.5, pick.choice(["eager", "sdpa"]))
        examiner.ask(f"clean, {dtype}", case)
        shutil.rmtree(folder.path)


def timing(examiner):
    """A 6-layer model of width 256: (what, seconds on the clock, of processors), the least of five
    calls each."""
    for batch, length in ((2, 64), (1, 128)):
        shape = Shape(n_layer=6, n_head=8, n_embd=256, vocab_size=1000, n_positions=160, batch=batch,
                      time=length)
        folder = Folder(examiner.work / f"timed{batch}", shape, seed=5)
        for mistakes in ([], [Mistake("norm.ddof")], [Mistake("attention.no-mask")],
                         [Mistake("norm.ddof", "transformer.h.3.ln_2")],
                         [Mistake("norm.ddof"), Mistake("activation.relu")],
                         [Mistake("norm.eps-value", value=1e-3), Mistake("activation.gelu-quick")],
                         [Mistake("weights.untied-head")]):
            for stages in (False, True):
                case = Case(folder, mistakes, stages=stages)
                command = [examiner.program, *map(str, case.write(examiner.work / "timing"))]
                calls = [run(command)[1:] for _ in range(5)]
                yield f"{case}, {batch} × {length}", min(c for c, _ in calls), min(p for _, p in calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--only", default="singles,probe,pairs,clean,time", metavar="PARTS")
    parser.add_argument("--models", default=",".join(MODELS), metavar="NAMES")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program = str(pathlib.Path(options.program).resolve())
    parts, drawn, timed = options.only.split(","), 0, []
    with tempfile.TemporaryDirectory() as work:
        examiner = Examiner(program, pathlib.Path(work), options.keep)
        folders = [Folder(examiner.work / name, shape, seed=20 + i)
                   for i, (name, shape) in enumerate(MODELS.items())
                   if name in options.models.split(",")]
        if "singles" in parts:
            singles(examiner, folders, options.quick)
        if "probe" in parts:
            probe(examiner, options.quick)
        if "pairs" in parts:
            drawn = pairs(examiner, folders, options.quick)
        if "clean" in parts:
            clean(examiner, options.quick)
        if "time" in parts:
            timed = list(timing(examiner))
        text, missed = page(examiner.answers, timed, drawn)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
