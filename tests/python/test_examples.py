"""The configurations under examples/ are read, planned and started by the program."""

import os
import signal
import subprocess
import time

import pytest
from conftest import ROOT

CONFIGS = sorted((ROOT / "examples").glob("*.toml"))


def test_there_are_configurations():
    assert {p.name for p in CONFIGS} >= {"shakespeare_char.toml", "shakespeare_char_cpu.toml"}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda p: p.stem)
def test_a_configuration_starts_with_a_plan_and_stops_with_its_state_saved(
    prenorm, config, text_file, tmp_path
):
    """Interrupted at the first progress line: exit code 130 and a folder that is a model."""
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [prenorm.path, "train", "--config", config, "--data", text_file, "--out-dir",
             tmp_path / "run", "--log-interval", "1", "--batch-size", "2"],
            stdout=subprocess.DEVNULL, stderr=log, cwd=tmp_path,
            # A suite that runs in the background hands on SIGINT as ignored, and so it would stay.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            deadline = time.monotonic() + 240
            while b"iter " not in (tmp_path / "log").read_bytes():
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGINT)
            # A small recipe may be done by then; both ends leave a whole folder.
            assert process.wait(timeout=240) in (0, 130)
        finally:
            process.kill()
    lines = (tmp_path / "log").read_text(encoding="utf-8")
    assert "parameters" in lines and "ETA" in lines
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert (tmp_path / "run" / "config.json").exists()
