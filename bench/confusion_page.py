"""The page of bench/confusion.py: docs/confusion.md, out of the program's answers."""

import collections
import os
import platform
import statistics

import torch

# Section: the least share of right answers, in per cent.
TARGETS = {
    "one mistake, float32, logits": 100,
    "one mistake, float32, stages": 100,
    "two mistakes, float32, logits": 95,
    "two mistakes, float32, stages": 100,
    "two mistakes, one in one place, float32, logits": None,
    "two mistakes, one in one place, float32, stages": None,
    "one mistake, bfloat16, logits": None,
    "one mistake, bfloat16, stages": None,
    "probe, bfloat16, logits": 85,
    "probe, bfloat16, stages": 85,
    "probe, in one place, bfloat16, logits": None,
    "probe, in one place, bfloat16, stages": None,
    "clean, float32": 100,
    "clean, bfloat16": 100,
    "clean, float16": 100,
}
COLUMNS = {"one mistake, float32, logits": "float32: logits",
           "one mistake, float32, stages": "stages",
           "one mistake, bfloat16, logits": "bfloat16: logits",
           "one mistake, bfloat16, stages": "stages",
           "probe, bfloat16, logits": "the probe in bfloat16: logits",
           "probe, bfloat16, stages": "stages"}
SECONDS = 1.0  # of a call on the 6-layer model

HEAD = """# What diagnose names

Runs of PyTorch {torch} with a known mistake inside, and clean ones, given to `prenorm diagnose`. This page
is made by

    bench/confusion.py --program build/release/prenorm --write docs/confusion.md

here on {machine}. The command fails where a target is missed.

- **The runs** are PyTorch's, not ours: `tests/python/mistaken_gpt.py` is GPT-2 written with ordinary
  modules and every mistake of the table in it. Without one its stages are those of `transformers`' GPT-2
  to the bit, and its mistakes agree in float64 with the textbook's recorded values
  (`tests/python/test_mistaken_gpt.py`). "bfloat16" is the whole run in that type.
- **A right answer** has exactly the mistakes made, each once, with the right place and value.
  `ambiguous` is right only in float32, with the mistake among the candidates, and only if no candidate is
  more than three roundings away: each is run in float64 to see. `equal` is right where the outputs
  move by less than three roundings of float32. Beside a mistake in bfloat16, `numbers.bf16` may be
  named; where the mistake changes no bit of the logits there (keys rounded to half floats), it must be.
- **The models** are random, with weights as after training: 4 layers of width 64 (tied, GELU in its tanh
  form), 3 of 48 (untied, GELU, square matrices everywhere) and 6 of 64 (ReLU, a few channels eight
  times as large). A mistake is made everywhere and, where it can be, in one layer or one norm. Pairs are
  drawn at random; one of which a mistake does not show in the logits, because the other hides it or it
  moves them by less than five roundings, is drawn anew ({drawn} draws here).
- **The probe** is the model that `prenorm diagnose --emit-probe` writes for users of bfloat16.
- **Clean runs** are `transformers`' own, eager and SDPA attention, in three types, from logits and from
  stages: 1 to 6 layers, widths 16 to 256, 2 to 64 tokens, fresh, trained and outlier weights.
"""


def share(answers):
    return sum(not a.wrong for a in answers), len(answers)


def by_section(answers):
    sections = collections.defaultdict(list)
    for answer in answers:
        sections[answer.section].append(answer)
    return sections


def summary(sections, missed):
    lines = ["| runs | right | share | target |", "|---|---|---|---|"]
    for name, target in TARGETS.items():
        if name not in sections:
            continue
        right, count = share(sections[name])
        percent = 100 * right / count
        if target is not None and percent < target:
            missed.append(f"{name}: {right} of {count} right, expected {target} %")
        goal = "" if target is None else f"{target} %" if target == 100 else f"≥ {target} %"
        lines.append(f"| {name} | {right} of {count} | {percent:.1f} % | {goal} |")
    return lines


def cell(answers):
    """9/9, or what was said in place of the right answer and how often."""
    if not answers:
        return ""
    right, count = share(answers)
    said = collections.Counter(a.named() for a in answers if a.wrong)
    text = f"{right}/{count}"
    if said:
        shown = [f"{name} ×{n}" if n > 1 else name for name, n in said.most_common(3)]
        text += ": " + ", ".join(shown) + (" …" if len(said) > 3 else "")
    return text


def matrix(sections):
    names = sorted({m.name for s in COLUMNS for a in sections.get(s, []) for m in a.case.mistakes})
    lines = ["| mistake | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in names:
        cells = [cell([a for a in sections.get(s, []) if a.case.mistakes[0].name == name])
                 for s in COLUMNS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


def wrong_pairs(sections):
    lines = []
    for name, answers in sections.items():
        if name.startswith(("two mistakes", "clean")):
            lines += [f"- {name}: {' + '.join(map(str, a.case.mistakes)) or 'clean'}: {a.wrong}"
                      for a in answers if a.wrong]
    return lines or ["None."]


def page(answers, timed, drawn):
    """The text, and the targets missed."""
    missed, sections = [], by_section(answers)
    lines = [HEAD.format(torch=torch.__version__.partition("+")[0], machine=platform.machine(),
                         drawn=drawn), "## In short", ""]
    lines += summary(sections, missed)
    lines += ["", "## One mistake", "",
              "How many answers were right; for the others, what was said. A mistake has several rows",
              "behind it where it has values (ε, the packing, the module) or places.", ""]
    lines += matrix(sections)
    lines += ["", "## Wrong answers about pairs and clean runs", "", *wrong_pairs(sections)]
    if timed:
        lines += ["", "## Time", "", "Of the whole program on a model of 6 layers and width 256 with 2"
                  " sequences of 64 tokens, and with", "one of 128: seconds on the clock, and of"
                  " processors, of all threads; the least of five calls.",
                  f"`bench/diagnose_time.py` times every mistake. Here on {os.cpu_count()} cores.", "",
                  "| run | clock | processors |", "|---|---|---|"]
        lines += [f"| {what} | {clock:.2f} | {busy:.2f} |" for what, clock, busy in timed]
        clocks = [clock for _, clock, _ in timed]
        slow = max(clocks)
        lines += ["", f"On the clock: median {statistics.median(clocks):.2f} s, most {slow:.2f} s"
                  f" (≤ {SECONDS:.0f} s)."]
        if slow > SECONDS:
            missed.append(f"time: {slow:.2f} s, expected at most {SECONDS:.0f} s")
    return "\n".join(lines) + "\n", missed
