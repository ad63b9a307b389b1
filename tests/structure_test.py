"""Holds the source tree to its own rules: ranks of the folders, a header beside each source, a test
beside each unit, short files, public headers that need nothing, text that names no machine.

    python3 tests/structure_test.py

Needs nothing but Python's standard library. The rules are explained in ARCHITECTURE.md and
CONTRIBUTING.md; the table below is the one place where the ranks are set.
"""

import os
import re
import subprocess
import unittest
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "prenorm"
TESTS = ROOT / "tests"

# An include may point only into its own folder or into one of a strictly lower rank.
RANKS = {
    "base": 0,
    "tensor": 1,
    "reference": 2,
    "kernels": 2,
    "formats": 2,
    "text": 2,
    "layers": 3,
    "model": 4,
    "train": 5,
    "generate": 5,
    "study": 5,
    "report": 6,
    "cli": 7,
}

MAX_LINES = 400
MAX_COLUMNS = {".h": 100, ".cc": 100, ".cmake": 100, ".sh": 100}
CODE = {".h", ".cc", ".py", ".cmake", ".sh", ".js", ".css"}
TEXT = CODE | {".md", ".txt", ".toml", ".json", ".in", ".yml", ""}

# Headers with nothing to test on their own: declarations whose behaviour is another unit's.
NO_TEST_OF_ITS_OWN = {
    "base/error.h",  # exception types without code
    "base/index.h",  # type names and two one-line functions, used by every test
    "train/progress.h",  # numbers without code
    "cli/mpi_module.h",  # a table of functions: tests/python/test_ranks.py runs them
    "study/layer_pass.h",  # tensors without code
    "kernels/targets.h",  # the set-up of Highway: what compiles is what is tested
}

# Tests of a folder as a whole rather than of one unit.
WHOLE_FOLDER_TESTS = {"reference/cases", "reference/derivations"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
STANDARD_HEADER = re.compile(r"^[a-z0-9_]+$")  # <vector>; a library's has a slash or a suffix


def is_ignored(name):
    return name.startswith(("build", "run", ".git", ".venv", ".cache")) and name not in (
        ".gitignore",
        ".github",
    ) or name in ("out", "__pycache__", ".pytest_cache")


def project_files():
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        top = here == ROOT
        folders[:] = sorted(
            f for f in folders if f not in ("__pycache__", ".pytest_cache", "data", "golden")
            and not (top and is_ignored(f))
        )
        for name in sorted(names):
            path = here / name
            if path.suffix in TEXT and not (top and is_ignored(name)):
                yield path


def sources(*suffixes):
    return sorted(p for p in SOURCE.rglob("*") if p.suffix in suffixes)


def unit(path):
    return path.relative_to(SOURCE).as_posix()


def includes(path):
    """(quote, target) of each #include line of a file."""
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def rank_violations(folder, targets):
    """Why a file of `folder` may not include each of `targets` ("tensor/view.h"): a list."""
    found = []
    for target in targets:
        to = target.split("/")[0]
        if to not in RANKS:
            found.append(f"{target}: no folder of the table")
        elif to != folder and RANKS[to] >= RANKS[folder]:
            found.append(f"{target}: rank {RANKS[to]} from {folder}/, rank {RANKS[folder]}")
    return found


def header_of(folder, stem):
    """The header whose definitions or tests FOLDER/STEM holds: gpt.h for gpt, and for gpt_decode."""
    words = stem.split("_")
    for count in range(len(words), 0, -1):
        name = "_".join(words[:count])
        for path in (folder / f"{name}.h", folder / f"{name}-inl.h"):
            if path.exists():
                return path
    return None


def private_patterns():
    """What cmake/PrenormInstall.cmake leaves out of an installation."""
    text = (ROOT / "cmake" / "PrenormInstall.cmake").read_text(encoding="utf-8")
    return re.findall(r'PATTERN "([^"]+)" EXCLUDE', text)


def is_private(name, patterns):
    path = f"/prenorm/{name}"
    return any(fnmatch(path, f"*/{p}") or fnmatch(path, f"*/{p}/*") for p in patterns)


class Structure(unittest.TestCase):
    def assert_none(self, found, rule):
        if found:
            self.fail(f"{rule}:\n  " + "\n  ".join(found))

    def test_the_rank_rule_refuses_an_upward_and_a_sideways_include(self):
        self.assertFalse(rank_violations("model", ["model/gpt.h", "base/error.h"]))
        self.assertTrue(rank_violations("tensor", ["layers/linear.h"]))
        self.assertTrue(rank_violations("kernels", ["formats/json.h"]))
        self.assertTrue(rank_violations("kernels", ["nowhere/x.h"]))

    def test_every_folder_has_a_rank(self):
        folders = {p.name for p in SOURCE.iterdir() if p.is_dir()}
        self.assertLessEqual(folders, set(RANKS))

    def test_includes_point_down(self):
        found = []
        for path in sources(".h", ".cc"):
            targets = [t.removeprefix("prenorm/") for _, t in includes(path)
                       if t.startswith("prenorm/")]
            found += [f"{unit(path)}: {why}"
                      for why in rank_violations(unit(path).split("/")[0], targets)]
        self.assert_none(found, "an include may point only into its own folder or a lower rank")

    def test_includes_are_written_from_the_root(self):
        found = [f"{unit(path)}: {target}" for path in sources(".h", ".cc")
                 for quote, target in includes(path)
                 if quote == '"' and not target.startswith("prenorm/")]
        self.assert_none(found, 'write #include "prenorm/FOLDER/FILE.h"')

    def test_headers_do_not_include_each_other_in_a_circle(self):
        below = {unit(p): [t.removeprefix("prenorm/") for _, t in includes(p)
                           if t.startswith("prenorm/")] for p in sources(".h")}
        done, found = set(), []

        def visit(name, trail):
            if name in trail:
                found.append(" -> ".join([*trail[trail.index(name):], name]))
            elif name not in done:
                for target in below.get(name, []):
                    # A per-target header includes itself once a target; that is no circle.
                    if target != name:
                        visit(target, [*trail, name])
                done.add(name)

        for name in below:
            visit(name, [])
        self.assert_none(found, "headers in a circle")

    def test_a_header_is_beside_each_source(self):
        found = [unit(path) for path in sources(".cc")
                 if path.name != "main.cc" and not header_of(path.parent, path.stem)]
        self.assert_none(found, "a source without a header beside it")

    def test_a_test_is_beside_each_unit(self):
        found = []
        for path in sources(".h"):
            name = unit(path)
            test = TESTS / path.parent.name / f"{path.stem}_test.cc"
            # Per-target code (X-inl.h, X_target.h) is reached, and tested, through X.h.
            through_another = name.endswith(("-inl.h", "_target.h")) or name in NO_TEST_OF_ITS_OWN
            if not (test.exists() or through_another):
                found.append(f"{name}: expected tests/{path.parent.name}/{test.name}")
        self.assert_none(found, "a unit without a test file")

    def test_each_test_names_a_unit(self):
        found = []
        for path in sorted(TESTS.glob("*/*_test.cc")):
            folder, stem = path.parent.name, path.stem.removesuffix("_test")
            mirrors = header_of(SOURCE / folder, stem) or f"{folder}/{stem}" in WHOLE_FOLDER_TESTS
            if folder in RANKS and not mirrors:
                found.append(f"{path.relative_to(ROOT)}: no prenorm/{folder}/{stem}.h")
        self.assert_none(found, "a test file that mirrors no unit")

    def test_public_headers_need_only_the_standard_library(self):
        found, patterns = [], private_patterns()
        self.assertTrue(is_private("kernels/simd-inl.h", patterns))
        self.assertFalse(is_private("model/gpt.h", patterns))
        for path in sources(".h"):
            if is_private(unit(path), patterns):
                continue
            for _, target in includes(path):
                if target.startswith("prenorm/"):
                    if is_private(target.removeprefix("prenorm/"), patterns):
                        found.append(f"{unit(path)}: private {target}")
                elif not STANDARD_HEADER.match(target):
                    found.append(f"{unit(path)}: <{target}>")
        self.assert_none(found, "an installed header that a consumer may be unable to compile")

    def test_headers_are_guarded_and_say_what_they_are_for(self):
        found = []
        for path in sources(".h"):
            text = path.read_text(encoding="utf-8")
            guards = ("#pragma once", "HWY_TARGET_TOGGLE", "foreach_target.h")
            if not text.startswith("//"):
                found.append(f"{unit(path)}: first line is no comment")
            if not any(guard in text for guard in guards):
                found.append(f"{unit(path)}: no #pragma once")
        self.assert_none(found, "a header's first comment and guard")

    def test_files_are_short(self):
        found = []
        for path in project_files():
            if path.suffix in CODE:
                lines = path.read_text(encoding="utf-8").count("\n")
                if lines > MAX_LINES:
                    found.append(f"{path.relative_to(ROOT)}: {lines} lines")
        self.assert_none(found, f"a file of more than {MAX_LINES} lines")

    def test_lines_fit(self):
        found = []
        for path in project_files():
            limit = MAX_COLUMNS.get(path.suffix)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if limit and len(line) > limit and "http" not in line:
                    found.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns")
        self.assert_none(found, "a line that is too long")

    def test_the_text_names_no_machine(self):
        patterns = [
            r"(?:^|[\s\"'`(=])/(?:work|farm|root|home|Users)/",  # somebody's folders
            r"https?://[a-z.]*(?:p.pi|deb.an|p.thonhosted)[a-z.]*/",  # a package registry
            r"\bissue #?\d",
        ]
        found = []
        for path in project_files():
            if path == Path(__file__).resolve():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if any(re.search(p, line) for p in patterns):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
        self.assert_none(found, "text that belongs to one machine, not to the project")

    def test_links_between_the_pages_lead_somewhere(self):
        found = []
        for path in project_files():
            if path.suffix != ".md":
                continue
            text = path.read_text(encoding="utf-8")
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
                if "://" not in target and not (path.parent / target).exists():
                    found.append(f"{path.relative_to(ROOT)}: {target}")
        self.assert_none(found, "a dead link")

    def test_the_readme_shows_lines_of_the_program_that_the_tests_run(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        shown = "".join(re.findall(r"```cpp\n(.*?)```", readme, re.DOTALL)).splitlines()
        program = (TESTS / "consumer" / "project" / "main.cc").read_text(encoding="utf-8")
        run = {line.strip() for line in program.splitlines()}
        self.assertTrue(shown)
        found = [line for line in shown if line.strip() not in run]
        self.assert_none(found, "README.md shows what tests/consumer/project/main.cc does not run")

    def test_the_readme_lists_the_verbs_that_the_program_has(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        table = readme.split("| verb | does |", 1)[1].split("\n\n", 1)[0]
        verbs = (SOURCE / "cli" / "verb.cc").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^\| `([a-z]+)`", table, re.MULTILINE),
                         re.findall(r'VerbEntry\{"([a-z]+)"', verbs))

    def test_scripts_are_executable_and_parse(self):
        found = []
        scripts = [ROOT / "quickstart.sh", ROOT / "test.sh", ROOT / ".ci" / "run"]
        for path in scripts:
            if not os.access(path, os.X_OK):
                found.append(f"{path.name}: not executable")
            if subprocess.run(["bash", "-n", path], check=False).returncode != 0:
                found.append(f"{path.name}: does not parse")
        self.assert_none(found, "a script that cannot run")


if __name__ == "__main__":
    unittest.main()
