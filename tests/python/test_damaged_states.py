"""Each file of a run, and of each of its states, is deleted, cut and altered: a resume uses the newest
state that is whole, names what is damaged, and ends in the bytes of an undisturbed run. Where no
state is whole it refuses in one line.
"""

import json
import shutil

import pytest

from small_training import LONG, SmallTraining, quick_folder, undisturbed  # noqa: F401


def delete(path):
    path.unlink()


def cut(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def empty(path):
    with path.open("r+b") as file:
        file.truncate(0)


def flip(path, at=0.7):
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 1
    path.write_bytes(data)


DAMAGES = [delete, cut, empty, flip]


@pytest.fixture
def stopped(prenorm, quick_folder):
    """A run in the middle, with two checkpoints; restore() brings it back as it was."""
    training = SmallTraining(prenorm, quick_folder)
    training.run("--max-iters", 12, "--lr-decay-iters", 24, "--warmup-iters", 1)
    kept = quick_folder / "kept"
    shutil.copytree(training.run_folder, kept)

    def restore():
        shutil.rmtree(training.run_folder)
        shutil.copytree(kept, training.run_folder)
        return training

    return restore


@pytest.fixture
def goal(stopped):
    training = stopped()
    training.run()
    return training.outcome()


def files_of(training, folder):
    return sorted(p.name for p in training.file(folder).iterdir() if p.is_file())


def test_two_states_are_kept_and_each_is_a_model_folder(prenorm, stopped):
    training = stopped()
    names = sorted(p.name for p in training.run_folder.iterdir() if p.is_dir())
    assert names == ["best", "checkpoint-10", "checkpoint-12"]
    for name in names:
        prenorm("generate", "-m", training.file(name), "-p", "the", "-n", 3)
        prenorm("inspect", training.file(name))


def test_damage_in_the_newest_state_falls_back_to_the_one_before_with_a_warning(stopped, goal):
    for name in files_of(stopped(), "checkpoint-12"):
        for damage in DAMAGES:
            training = stopped()
            # The run's own files and best are the same ones, as links leave it.
            for folder in ("checkpoint-12", "best", "."):
                damage(training.file(folder) / name)
            done = training.resumes_to(goal)
            assert "warning: " in done.stderr and name in done.stderr, (name, damage, done.stderr)
            assert "resume  step 10" in done.stderr, (name, damage, done.stderr)


def test_damage_in_the_runs_own_files_is_repaired_from_the_newest_state(stopped, goal):
    for name in files_of(stopped(), "checkpoint-12"):
        for damage in DAMAGES:
            training = stopped()
            damage(training.file(name))
            done = training.resumes_to(goal)
            assert "resume  step 12" in done.stderr, (name, damage, done.stderr)
            assert "notice: the files in" in done.stderr, (name, damage, done.stderr)


def test_damage_in_older_states_and_in_other_files_does_not_matter(stopped, goal):
    training = stopped()
    names = [f"checkpoint-10/{n}" for n in files_of(training, "checkpoint-10")]
    names += [f"best/{n}" for n in files_of(training, "best")] + ["report.html"]
    for name in names if LONG else names[::3]:
        for damage in DAMAGES:
            training = stopped()
            damage(training.file(name))
            done = training.resumes_to(goal)
            assert "resume  step 12" in done.stderr, (name, damage, done.stderr)


def test_a_run_of_which_every_state_is_damaged_is_refused_in_one_line(stopped):
    for damage in DAMAGES[1:]:
        training = stopped()
        for name in ("checkpoint-10", "checkpoint-12", "best", "."):
            damage(training.file(name) / "training_state.safetensors")
        before = {p: p.read_bytes() for p in training.run_folder.rglob("*.safetensors")}
        error = training.fails_with_one_line(3)
        assert "expected a state that is whole" in error and "training_state.safetensors" in error
        assert before == {p: p.read_bytes() for p in training.run_folder.rglob("*.safetensors")}


def test_every_bit_of_a_state_is_covered_by_a_checksum(stopped):
    training = stopped()
    for name in ("training_state.json", "model.safetensors", "config.json"):
        for step in range(0, 100, 1 if LONG else 9):
            training = stopped()
            for folder in ("checkpoint-12", "best", "."):
                flip(training.file(folder) / name, step / 100)
            done = training.run("--max-iters", 11, "--lr-decay-iters", 24, "--warmup-iters", 1)
            assert "resume  step 10" in done.stderr and name in done.stderr, (name, step)


def test_damaged_lines_of_the_metrics_are_left_out_and_named(stopped, goal):
    training = stopped()
    lines = training.file("metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"{", b"[", 1)
    training.file("metrics.jsonl").write_bytes(b"".join(lines) + b'{"iter":15,"lo')
    done = training.run()
    assert "metrics.jsonl line 2: expected" in done.stderr
    expected = goal[2][:1] + goal[2][2:]
    assert training.metrics() == expected
    iters = [line["iter"] for line in training.metrics()]
    assert iters == sorted(set(iters))


def test_a_damaged_state_is_set_aside_not_deleted(stopped, goal):
    training = stopped()
    flip(training.file("checkpoint-12/model.safetensors"))
    for folder in ("best", "."):
        flip(training.file(folder) / "model.safetensors")
    training.resumes_to(goal)
    assert training.file("checkpoint-12.damaged/model.safetensors").exists()


def test_a_run_of_an_earlier_version_without_checksums_resumes(stopped, goal):
    training = stopped()
    for folder in ("best", "checkpoint-10", "checkpoint-12"):
        shutil.rmtree(training.file(folder))
    state = json.loads(training.file("training_state.json").read_text())
    state["version"] = 1
    del state["files"], state["crc32"]
    for key in ("save_every_minutes", "save_best", "keep", "patience", "watch", "watch_interval"):
        del state["options"][key]
    for key in ("evaluations_since_best", "recent_losses", "loss_was_high"):
        del state["position"][key]
    training.file("training_state.json").write_text(json.dumps(state))
    done = training.run()
    assert "resume  step 12" in done.stderr
    assert training.outcome()[0]["model.safetensors"] == goal[0]["model.safetensors"]


def test_best_that_a_kill_has_left_behind_follows_at_the_next_resume(prenorm, quick_folder):
    training = SmallTraining(prenorm, quick_folder)
    training.run("--max-iters", 6, "--lr-decay-iters", 24, "--warmup-iters", 1)
    shutil.copytree(training.file("best"), quick_folder / "older")
    training.run()
    whole = training.outcome()
    shutil.rmtree(training.file("best"))
    shutil.copytree(quick_folder / "older", training.file("best"))
    assert training.outcome() != whole
    training.resumes_to(whole)
