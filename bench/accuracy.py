#!/usr/bin/env python3
"""How exact our kernels are, beside PyTorch's on the same inputs; makes docs/accuracy.md.

    bench/accuracy.py --program build/release/prenorm_accuracy --write docs/accuracy.md
    bench/accuracy.py --program build/release/prenorm_accuracy --quick        prints the tables

Needs PyTorch, numpy and safetensors. Exits with 1 where a bound does not hold. The inputs come from
fixed seeds (bench/accuracy_cases.py) and go to our kernels through a safetensors file.
"""

import argparse
import math
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.numpy import load_file, save_file

import accuracy_cases as cases

# Bounds in ulp, unless the measure says otherwise.
BOUNDS = {"exp": 1, "tanh": 2, "erf": 2, "gelu": 4, "gelu-tanh": 4, "layer-norm": 4, "softmax": 8,
          "cross-entropy": 1}
SLOPE_BOUND = 3e-7  # of a GELU's derivative, which is of order one
GRADIENT_BOUND = 1e-6  # ‖error‖ / ‖exact‖
PYTORCHS = object()  # the bound is what PyTorch has


class Row:
    """One measure of one case: ours, PyTorch's, and the most that ours may be."""

    def __init__(self, case, measure, ours, theirs, bound):
        self.case, self.measure = case, measure
        self.ours, self.theirs, self.bound = ours, theirs, bound

    def holds(self):
        return self.ours <= self.bound


def worst_ulps(got, exact):
    return float(cases.ulps(got, exact).max())


def of_largest(got, exact):
    return float(numpy.abs(got - exact).max() / numpy.abs(exact).max())


def absolute(got, exact):
    return float(numpy.abs(got - exact).max())


def of_norm(got, exact):
    """‖got − exact‖ / ‖exact‖, in a scale in which no square overflows; ‖got‖ where exact is 0."""
    size = numpy.abs(exact).max() or cases.Exact(1)
    difference = numpy.linalg.norm(((got - exact) / size).astype(float).ravel())
    return float(difference / (numpy.linalg.norm((exact / size).astype(float).ravel()) or 1))


def not_finite(got, _):
    return int((~numpy.isfinite(got)).sum())


def measures(operation):
    """(result, heading, function, bound) of an operation."""
    bound = BOUNDS.get(operation)
    if operation in ("gelu", "gelu-tanh"):
        return [("y", "y, ulp", worst_ulps, bound),
                ("slope", "derivative, error", absolute, SLOPE_BOUND),
                ("slope", "derivative, not finite", not_finite, 0)]
    if operation == "layer-norm":
        return [("y", "ulp", worst_ulps, bound), ("y", "of the largest", of_largest, 3e-7),
                ("dx", "dx, of its norm", of_norm, GRADIENT_BOUND),
                ("dweight", "dγ, of its norm", of_norm, GRADIENT_BOUND),
                ("dbias", "dβ, of its norm", of_norm, GRADIENT_BOUND)]
    if operation == "cross-entropy":
        return [("loss", "ulp", worst_ulps, bound)]
    if operation == "matmul":
        return [("c", "error, of the norm", of_norm, PYTORCHS)]
    return [("y", "ulp", worst_ulps, bound)]


def all_cases(quick):
    stride = 250_007 if quick else 4_001
    yield "Exponentials", list(cases.elementwise_cases(stride))
    yield "GELU", [*cases.gelu_cases(stride), *cases.infinity_cases()]
    widths = (1, 2, 3, 768) if quick else (1, 2, 3, 768, 100_003)
    yield "Layer norm", list(cases.layer_norm_cases(widths))
    yield "Softmax and cross-entropy", list(cases.logit_cases(50_257, 1 if quick else 4))
    yield "Matrix products", list(cases.product_cases(3_072 if quick else 50_257))


def run_program(program, sections):
    """Our results of every case, and the instruction set that made them."""
    inputs, names = {}, {}
    for _, listed in sections:
        for case in listed:
            key = names[case.name] = f"{len(names):04}"
            for argument, array in case.inputs.items():
                inputs[f"{key}.{case.operation}.{argument}"] = numpy.ascontiguousarray(array)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (f"{folder}/{n}.safetensors" for n in ("in", "out"))
        save_file(inputs, source)
        done = subprocess.run([program, source, target], check=True, capture_output=True, text=True)
        results = load_file(target)
    ours = {name: {k.partition(".")[2]: v for k, v in results.items() if k.startswith(key + ".")}
            for name, key in names.items()}
    return ours, done.stdout.strip()


def measure(case, ours):
    with numpy.errstate(all="ignore"):
        exact = case.exact(case.inputs)
    theirs = case.torch(case.inputs)
    rows = []
    for result, heading, function, bound in measures(case.operation):
        want = exact[result]
        # Our losses are doubles; a float has to hold what is compared with PyTorch's.
        got = ours[result].reshape(want.shape).astype(numpy.float32)
        with numpy.errstate(all="ignore"):
            torchs = function(theirs[result], want)
            rows.append(Row(case, heading, function(got, want), torchs,
                            torchs if bound is PYTORCHS else bound))
    return rows


def number(value, heading):
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    if "ulp" in heading and value < 9999.5:
        return f"{value:.2f}" if value < 99.5 else f"{value:,.0f}"
    return f"{value:.1e}"


def tables_of(title, rows):
    """The tables of a section by name; layer norm's gradients have one of their own."""
    gradients = [r for r in rows if r.measure.startswith("d") and "norm" in r.measure]
    rest = [r for r in rows if r not in gradients]
    found = {title: table(rest)}
    if gradients:
        found[title + " gradients"] = table(gradients)
    return found


def table(rows):
    """A line a case; two columns a measure."""
    headings = list(dict.fromkeys(row.measure for row in rows))
    lines = ["| | " + " | ".join(f"{h}: ours | PyTorch" for h in headings) + " |",
             "|---|" + "---|" * (2 * len(headings))]
    by_case = {}
    for row in rows:
        by_case.setdefault(row.case.name, {})[row.measure] = row
    for name, found in by_case.items():
        cells = []
        for h in headings:
            row = found[h]
            ours = f"{number(row.ours, h)} (≤ {row.bound:.2g})"
            cells += [ours, number(row.theirs, h)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/prenorm_accuracy")
    parser.add_argument("--quick", action="store_true", help="fewer inputs")
    parser.add_argument("--write", metavar="PAGE", help="docs/accuracy.md; else it is printed")
    a = parser.parse_args()
    torch.set_num_threads(1)  # its dγ and dβ depend on the threads
    sections = list(all_cases(a.quick))
    ours, isa = run_program(a.program, sections)
    tables, failed = {}, []
    for title, listed in sections:
        rows = [row for case in listed for row in measure(case, ours[case.name])]
        tables |= tables_of(title, rows)
        failed += [row for row in rows if not row.holds()]
    text = page(tables, isa)
    if a.write:
        pathlib.Path(a.write).write_text(text, encoding="utf-8")
    else:
        print(text)
    for row in failed:
        print(f"{row.case.name}: {row.measure}: expected at most {row.bound}, found {row.ours}",
              file=sys.stderr)
    return 1 if failed else 0


def page(tables, isa):
    template = pathlib.Path(__file__).with_name("accuracy.md.in").read_text(encoding="utf-8")
    facts = {"ISA": isa, "CPU": torch.backends.cpu.get_cpu_capability(),
             "TORCH": torch.__version__.partition("+")[0], "MACHINE": platform.machine(),
             **{title.upper(): text for title, text in tables.items()}}
    for name, value in facts.items():
        template = template.replace(f"@{name}@", value)
    return template


if __name__ == "__main__":
    sys.exit(main())
