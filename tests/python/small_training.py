"""A training that takes a moment and has all that a resume must not forget: dropout, accumulated
micro-batches, a schedule, evaluations, early stopping's counter, a save every few steps.

    training = SmallTraining(prenorm, folder)
    training.run(expect=0)
    assert training.outcome() == undisturbed
"""

import hashlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

STEPS = 24
LONG = os.environ.get("PRENORM_LONG_TESTS") == "1"


def small_text(lines_wanted=60):
    """The same every time, with some structure to learn; about 33 characters a line."""
    words = "the a cat dog bird sees hears likes small green old and but or near under".split()
    lines, state = [], 1
    for _ in range(lines_wanted):
        line = []
        for _ in range(7):
            state = (state * 1103515245 + 12345) % 2**31
            line.append(words[state // 65536 % len(words)])
        lines.append(" ".join(line) + ".")
    return "\n".join(lines) + "\n"


class SmallTraining:
    def __init__(self, program, folder, run="run"):
        self.program = str(program.path)
        self.folder = Path(folder)
        self.run_folder = self.folder / run
        (self.folder / "text.txt").write_text(small_text(), encoding="utf-8")

    def command(self, *more):
        return [
            self.program, "train", "text.txt", "--out-dir", self.run_folder.name, "--resume",
            *"--n-layer 1 --n-head 2 --n-embd 16 --block-size 16 --batch-size 2".split(),
            *"--gradient-accumulation-steps 2 --dropout 0.1 --eval-iters 2 --eval-interval 6".split(),
            *f"--max-iters {STEPS} --save-interval 2 --log-interval 3 --patience 9".split(),
            *"--learning-rate 3e-3 --threads 1".split(), *map(str, more)]

    def environment(self, more=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PRENORM_")}
        return {**clean, **(more or {})}

    def start(self, *more, env=None, **popen):
        return subprocess.Popen(
            self.command(*more), cwd=self.folder, env=self.environment(env), stdin=subprocess.DEVNULL,
            stdout=popen.pop("stdout", subprocess.PIPE), stderr=popen.pop("stderr", subprocess.PIPE),
            text=True, **popen)

    def run(self, *more, expect=0, **popen):
        process = self.start(*more, **popen)
        out, err = process.communicate(timeout=120)
        assert expect is None or process.returncode == expect, (process.returncode, out, err)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def fails_with_one_line(self, code, *more, **popen):
        """The error line; progress and notices before it are no part of it."""
        done = self.run(*more, expect=code, **popen)
        errors = [line for line in done.stderr.splitlines() if line.startswith("prenorm: ")]
        assert len(errors) == 1 and done.stderr.splitlines()[-1] == errors[0], done.stderr
        assert "expected" in errors[0] and "found" in errors[0] and len(errors[0]) <= 300
        return errors[0]

    def file(self, name):
        return self.run_folder / name

    def step(self):
        """The newest step that was saved, by the names of the checkpoints; −1: none."""
        steps = [int(p.name.split("-")[1]) for p in self.run_folder.glob("checkpoint-*")
                 if p.name.split("-")[1].isdigit()]
        return max(steps, default=-1)

    def metrics(self):
        """The lines without what depends on the clock."""
        lines = [json.loads(line) for line in self.file("metrics.jsonl").read_text().splitlines()]
        for line in lines:
            for key in ("tokens_per_second", "elapsed"):
                line.pop(key, None)
        return lines

    def outcome(self):
        """What must not depend on how often the training was cut off: bits and lines."""
        names = ("model.safetensors", "training_state.safetensors", "best/model.safetensors")
        sums = {n: hashlib.sha256(self.file(n).read_bytes()).hexdigest() for n in names}
        state = json.loads(self.file("training_state.json").read_text())
        position = {k: v for k, v in state["position"].items() if k != "elapsed_seconds"}
        return sums, position, self.metrics()

    def resumes_to(self, undisturbed):
        done = self.run()
        assert self.outcome() == undisturbed, done.stderr
        left = [p.name for p in self.run_folder.iterdir()
                if p.name.startswith(".") and p.name != ".lock"]
        assert left == [], left
        return done


def address_space(megabytes):
    limit = megabytes << 20
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.fixture
def quick_folder():
    """A folder where syncing costs nothing, if there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="prenorm-test-",
                                   dir=memory if os.access(memory, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def undisturbed(prenorm, tmp_path):
    training = SmallTraining(prenorm, tmp_path, "undisturbed")
    training.run()
    return training.outcome()
