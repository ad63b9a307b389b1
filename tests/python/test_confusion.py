"""The page of bench/confusion.py tells a missed target, and a program that hangs is stopped."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import confusion  # noqa: E402
import confusion_page  # noqa: E402
from diagnose_cases import Case, Folder, Shape  # noqa: E402
from mistaken_gpt import Mistake  # noqa: E402

@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("model"), Shape(n_layer=1, n_embd=16, time=4), seed=1)
    return Case(folder, [Mistake("norm.ddof")])


def answers(case, wrong):
    said = {"status": "named", "mistakes": [{"name": "norm.rms" if wrong else "norm.ddof"}]}
    return confusion.Answer("one mistake, float32, stages", case, wrong, said, "")


def test_a_missed_target_is_told(case):
    right, wrong = answers(case, ""), answers(case, "named ['norm.rms']")
    text, missed = confusion_page.page([right] * 9 + [wrong], [("clean", 0.5, 0.9)], 0)
    assert missed == ["one mistake, float32, stages: 9 of 10 right, expected 100 %"]
    assert "9/10: norm.rms" in text
    assert confusion_page.page([right] * 10, [("clean", 0.5, 0.9)], 0)[1] == []
    assert confusion_page.page([right], [("clean", 1.5, 0.9)], 0)[1] == ["time: 1.50 s, expected at most 1 s"]


def test_a_program_that_hangs_has_no_answer(case, monkeypatch):
    monkeypatch.setattr(confusion, "PATIENCE", 1)
    done, clock, busy = confusion.run([sys.executable, "-c", "while True: pass"])
    assert 0.5 < busy < 5 and clock > 0.5
    assert confusion.Examiner.read(case, done)[1].startswith("no answer")
