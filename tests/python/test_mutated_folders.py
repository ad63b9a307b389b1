"""Mutated model folders through the program (mutate.py): another seed than the one that one starts
with, for a few seconds, or a minute where the environment says PRENORM_LONG_TESTS=1."""

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 60 if os.environ.get("PRENORM_LONG_TESTS") == "1" else 8


def test_the_program_survives_mutated_model_folders(prenorm, tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("mutate.py"), str(prenorm.path),
         "--seconds", str(SECONDS), "--seed", "2", "--keep", str(tmp_path / "findings")],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
    # A mutator that changes nothing, or breaks everything alike, would find nothing either.
    assert " with 0" in done.stdout and " with 3" in done.stdout, done.stdout
