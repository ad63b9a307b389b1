"""quickstart.sh refuses what it cannot use before it builds anything."""

import subprocess

import pytest
from conftest import ROOT


def quickstart(*arguments, cwd):
    return subprocess.run([ROOT / "quickstart.sh", *arguments], cwd=cwd, capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [("--colour",), ("a.txt", "b.txt")])
def test_wrong_usage_shows_the_usage_and_ends_with_2(arguments, tmp_path):
    done = quickstart(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and "./quickstart.sh TEXT_FILE" in done.stderr


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_text_that_is_no_readable_file_is_named(name, tmp_path):
    done = quickstart(name, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"quickstart.sh: {name}: expected a text file that can be read, found none"]


def test_help_goes_to_standard_output(tmp_path):
    done = quickstart("--help", cwd=tmp_path)
    assert done.returncode == 0 and "./quickstart.sh TEXT_FILE" in done.stdout
