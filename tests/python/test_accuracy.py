"""The kernels keep the bounds of docs/accuracy.md, and the page is what bench/accuracy.py makes."""

import re
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import accuracy  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"


@pytest.fixture(scope="module")
def sections():
    return list(accuracy.all_cases(quick=True))


@pytest.fixture(scope="module")
def ours(prenorm, sections):
    program = prenorm.path.with_name("prenorm_accuracy")
    results, isa = accuracy.run_program(str(program), sections)
    assert isa in ("avx2", "avx512", "neon")
    return results


@pytest.mark.parametrize("section", range(5))
def test_every_bound_holds(sections, ours, section):
    title, cases = sections[section]
    rows = [row for case in cases for row in accuracy.measure(case, ours[case.name])]
    assert len(rows) >= len(cases) > 0, title
    assert not [f"{r.case.name}: {r.measure} {r.ours} > {r.bound}" for r in rows if not r.holds()]


def test_a_float32_layer_norm_is_caught(sections):
    """PyTorch's results in place of ours: the rows that it gets wrong are beyond the bounds."""
    wrong = set()
    for case in dict(sections)["Layer norm"]:
        if any(not row.holds() for row in accuracy.measure(case, case.torch(case.inputs))):
            wrong.add(case.name)
    assert {"mean 1e4, spread 1e-2, d = 768", "size 1e18, d = 768", "size 1e30, d = 768"} <= wrong


def page_rows():
    """(name, ours, bound) of each cell of ours on the page."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| | "):
            name, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            for cell in cells[::2]:
                ours, bound = re.fullmatch(r"(\S+) \(≤ (\S+)\)", cell).groups()
                yield name, float(ours.replace(",", "")), float(bound)


def test_the_page_shows_every_case_within_its_bound():
    rows = list(page_rows())
    names = {case.name for _, cases in accuracy.all_cases(quick=False) for case in cases}
    assert {name for name, _, _ in rows} == names
    assert not [row for row in rows if row[1] > row[2]]
