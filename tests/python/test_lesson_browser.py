"""The lesson page in a real Chromium, opened from its file: driven by keyboard and mouse as a reader
would, its numbers against the same functions compiled for this machine and against PyTorch."""

import json
import subprocess

import numpy
import pytest
import torch
from lesson_browser import native, page, running  # noqa: F401, fixtures
from lesson_page import compile_native, mistake_notes, tokens_of
from torch.nn import functional

PAGES, EXACT = 1e-9, 1e-12


def numbers(page, selector):
    """All digits of the numbers inside an element."""
    return page.value(f"[...document.querySelectorAll({json.dumps(selector + ' [data-value]')})]"
                      ".map((e) => Number(e.dataset.value))")


def tensors(page, expression):
    """The result of a call of `textbook` in the page, by name."""
    found = page.value(expression)
    return {name: numpy.array(t["values"]).reshape(t["rows"], t["columns"])
            for name, t in found.items()}


def assert_same(ours, theirs, tolerance=EXACT):
    assert set(ours) == set(theirs)
    for name, values in ours.items():
        assert numpy.allclose(values, theirs[name], rtol=tolerance, atol=tolerance), name


def test_webassembly_gives_this_machines_numbers(page, native):
    assert_same(tensors(page, "textbook.parameters()"), native.results(native.library.lesson_parameters()), 0)
    assert_same(tensors(page, "textbook.growth(24, 2.5)"), native.growth(24, 2.5))
    for post in (False, True):
        theirs = native.model("hello world", post=post)
        settings = f"{{settings: {{post: {str(post).lower()}}}}}"
        assert_same(tensors(page, f"textbook.model('hello world', {settings})"), theirs)
    x, gamma, beta = [[0.1, 1e3, -7, 2]] * 3, [1, 2, 3, 4], [0, 0.5, 0, 1]
    theirs = native.layer_norm(x, gamma, beta, 1e-3)
    assert_same(tensors(page, f"textbook.layerNorm({x}, {gamma}, {beta}, 1e-3)"), theirs)


def test_each_mistake_gives_this_machines_numbers(page, native):
    for name, (settings, choice) in mistake_notes().items():
        options = json.dumps({"settings": settings, "mistakes": [choice]})
        ours = tensors(page, f"textbook.model('attend', {options})")
        # Where numbers are rounded, a last digit may decide about a step of the small format.
        tolerance = 0.02 if name.startswith("numbers.") else EXACT
        assert_same(ours, native.model("attend", mistakes=[choice], **settings), tolerance)


def test_four_typed_numbers_are_normed_as_by_pytorch(page):
    row = [12.5, -3, 0.25, 7]
    page.value("document.querySelector('#norm-x0 input').focus()")
    for value in row:
        page.value("document.activeElement.select()")
        page.type(str(value))
        page.key("Tab")
    t = torch.tensor(row).double()
    weight, bias = torch.tensor([1, 1, 2, 0.5]).double(), torch.tensor([0, 0.5, 0, -1]).double()
    assert numpy.allclose(numbers(page, "#norm-mean"), [t.mean()], rtol=0, atol=PAGES)
    assert numpy.allclose(numbers(page, "#norm-variance"), [t.var(unbiased=False)], rtol=0, atol=PAGES)
    assert numpy.allclose(numbers(page, "#norm-x_hat"), functional.layer_norm(t, (4,)), rtol=0, atol=PAGES)
    right = functional.layer_norm(t, (4,), weight, bias)
    assert numpy.allclose(numbers(page, "#norm-y"), right, rtol=0, atol=PAGES)

    # The switches, by keyboard: divide by C − 1; then ε three steps up, to 3e-4.
    page.value("document.querySelector('#norm-ddof input:checked').focus()")
    page.key("ArrowRight")
    page.value("document.querySelector('#norm-eps').focus()")
    page.key("ArrowRight", 3)
    hat = (t - t.mean()) / (t.var() + 3e-4).sqrt()
    assert numpy.allclose(numbers(page, "#norm-x_hat"), hat, rtol=0, atol=PAGES)
    difference = (hat * weight + bias - right).abs().max()
    assert numpy.allclose(numbers(page, "#norm-say"), [difference], rtol=0, atol=PAGES)


def test_a_field_without_a_number_is_named_and_nothing_breaks(page):
    page.value("document.querySelector('#norm-x0 input').select()")
    page.key("-")
    problem = "document.querySelector('#norm .problem')"
    assert page.value(f"{problem}.hidden") is False
    assert "expected a number" in page.value(f"{problem}.textContent")
    page.type("5")
    assert page.value(f"{problem}.hidden") is True
    page.value("const t = document.getElementById('place-text'); t.value = 'é!';"
               "t.dispatchEvent(new Event('input', {bubbles: true}))")
    assert "expected a to z and spaces" in page.value(
        "document.querySelector('#place .problem').textContent")


def test_extreme_numbers_are_shown_and_break_nothing(page):
    set_value = ("((s, v) => { const e = document.querySelector(s); e.value = v;"
                 "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true})); })")
    for value in ("1e308", "-1e308", "1e-308", "1.0000000000000002", "0"):
        # All four, then the first alone.
        for last in (4, 1):
            page.value("document.querySelector('#norm-presets button').click()" if last == 1 else "0")
            page.value(f"for (let i = 1; i <= {last}; ++i)"
                       f" {set_value}(`#norm-x0 input:nth-child(${{i}})`, '{value}')")
            assert page.value("document.querySelector('#norm .problem').hidden")
            assert len(page.value("document.querySelector('#norm-y').textContent")) >= 4
    for name, value, says in [("norm.eps-value", "-5", ""), ("attention.mask-finite", "1e308", ""),
                              ("attention.mask-shifted", "-3", ""), ("attention.mask-shifted", "0.5", "whole"),
                              ("position.offset", "-1", "from 0 to 16"), ("position.offset", "16", "at most 17 positions")]:
        page.value("document.querySelector('#mistakes-none').click()")
        page.value(f"document.querySelector('#mistakes input[value=\"{name}\"]').click()")
        page.value(f"{set_value}('#mistakes-detail input', '{value}')")
        problem = page.value("(e => e.hidden ? '' : e.textContent)(document.querySelector('#mistakes .problem'))")
        assert says in problem and bool(says) == bool(problem), (name, value, problem)


def test_a_thousand_failures_later_the_page_still_computes(page):
    page.value("""(async () => {
      for (let i = 0; i < 1000; ++i) {
        try { textbook.model("?"); } catch (problem) { window.last = problem.message; }
        await null;
      }
    })()""")
    assert "expected a to z and spaces, found '?'" in page.value("last")
    assert page.value("textbook.model('ok').logits.rows") == 2


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_pytorch_lines_beside_the_steps_give_the_numbers_shown(page, native, norm):
    if norm == "post":
        page.click("#place-norm label:nth-child(2)")
    steps = page.value(
        "[...document.querySelectorAll('#place-flow > li')].map((li) => ({line:"
        " li.querySelector('[data-torch]').textContent, variable: li.dataset.variable, stage:"
        " li.dataset.stage, shape: JSON.parse(li.querySelector('.grid').dataset.shape), values:"
        " JSON.parse(li.querySelector('.grid').dataset.values)}))")
    assert len(steps) == 11
    p = native.parameters()
    text = page.value("document.getElementById('place-text').value")

    class Module:
        def __init__(self, name):
            self.weight, self.bias = (p[f"transformer.h.0.{name}.{k}"] for k in ("weight", "bias"))

    def heads(qkv):
        return [z.view(1, len(text), 2, 4).transpose(1, 2) for z in qkv.split(8, -1)]

    names = {
        "F": functional, "C": 8, "T": len(text), "tokens": tokens_of(text), "heads": heads,
        "merge": lambda o: o.transpose(1, 2).reshape(1, len(text), 8),
        "wte": p["transformer.wte.weight"], "wpe": p["transformer.wpe.weight"],
        "ln_1": Module("ln_1"), "ln_2": Module("ln_2"), "c_attn": Module("attn.c_attn"),
        "attn_c_proj": Module("attn.c_proj"), "c_fc": Module("mlp.c_fc"),
        "mlp_c_proj": Module("mlp.c_proj"),
    }
    for step in steps:
        exec(step["line"], names)  # a line of this repository
        if step["stage"] != "attn.probabilities":
            shown = numpy.array(step["values"]).reshape(step["shape"])
            computed = names[step["variable"]][0]
            assert numpy.allclose(shown, computed, rtol=0, atol=PAGES), step["line"]
    theirs = native.model(text, post=norm == "post")["transformer.h.0"]
    assert numpy.allclose(names["y"][0], theirs, rtol=0, atol=PAGES)


def test_the_cpp_lines_beside_the_steps_give_the_numbers_shown(page, tmp_path):
    blocks, shown = [], []
    for norm in (1, 2):
        page.click(f"#place-norm label:nth-child({norm})")
        lines = page.value("[...document.querySelectorAll('#place-flow [data-cpp]')].map((e) => e.textContent)")
        assert len(lines) == 11
        blocks.append("{" + "".join(f"const auto {line}" for line in lines) + "print(y); }")
        shown += page.value("JSON.parse(document.querySelector('#place-flow li:last-child .grid').dataset.values)")
    text = page.value("document.getElementById('place-text').value")
    source, program = tmp_path / "lines.cc", tmp_path / "lines"
    source.write_text(f"""#include <cstdio>
#include "docs/lesson/lesson.h"
using namespace prenorm::reference;
void print(const Tensor<double>& y) {{ for (const double v : y) std::printf("%.17g\\n", v); }}
int main() {{
  const auto model = prenorm::lesson::small_model();
  const auto& p = model.h[0];
  const Tokens tokens = prenorm::lesson::tokens_of("{text}");
  {' '.join(blocks)}
}}
""")
    compile_native(source, program)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert numpy.allclose(shown, [float(v) for v in printed], rtol=EXACT, atol=EXACT)


def test_growth_shows_1_4_16_64_and_the_root_law(page, native):
    page.click("#growth-presets button:first-child")
    row = "#growth-table [data-kind={}]".format
    assert numpy.allclose(numbers(page, row("plain")), [1, 4, 16, 64], rtol=1e-12)
    assert numpy.allclose(numbers(page, row("guess")), [1, 17**0.5, 33**0.5, 7], rtol=1e-12)
    page.value("document.querySelector('#growth-gain').focus()")
    page.key("Home")
    page.key("ArrowRight", 5)
    assert page.value("document.querySelector('#growth-gain-value').textContent") == "1"
    theirs = native.growth(3, 1.0)
    assert numpy.allclose(numbers(page, row("pre")), theirs["pre"].ravel(), rtol=1e-12)
    assert numpy.allclose(numbers(page, row("branch")), theirs["pre.branch"].ravel(), rtol=1e-12)


def test_causality_shows_what_moves(page):
    moved = ("[...document.querySelectorAll('#causality-moved tbody tr')]"
             ".map((tr) => JSON.parse(tr.dataset.moved))")
    assert all(row[:5] == [0] * 5 and row[5] > 0 for row in page.value(moved))
    page.value("document.querySelector('#causality-letters input:nth-child(3)').focus()")
    page.type("y")
    assert all(row[:2] == [0] * 2 and row[2] > 0 for row in page.value(moved))
    page.click("#causality-mask label:nth-child(2)")
    assert page.value(moved)[0][0] > 0
    assert "leaks" in page.value("document.querySelector('#causality-say').textContent")


def test_the_slider_at_zero_is_the_identity(page):
    page.value("document.querySelector('#identity-strength').focus()")
    page.key("Home")
    assert numbers(page, "#identity-pre .identity-moved") == [0]
    assert numbers(page, "#identity-post .identity-moved")[0] > 0.1


# Where a mistake first shows: by its family, or by its name.
FIRST = {
    "norm": "h.0.ln_1", "structure": "h.0.ln_1", "attention": "h.0.attn.c_proj", "position": "drop",
    "activation": "h.0.mlp.act", "numbers": "h.0.ln_1", "weights.transposed": "h.0.attn.c_proj",
    "weights.no-bias": "h.0.mlp.c_fc", "numbers.f16-cache": "h.0.attn.c_proj",
    "numbers.f16-gelu": "h.0.mlp.act", "structure.no-final-norm": "ln_f",
    "structure.double-final-norm": "ln_f",
    # ln_1 and the attention are right; the sum after them is not.
    "structure.residual-from-norm": "h.0.ln_2", "structure.no-residual": "h.0.ln_2",
}


def test_each_of_the_forty_switches_lights_the_stage_where_it_first_shows(page, native):
    page.click("#mistakes-none")
    assert page.value("document.querySelector('#mistakes').dataset.first") == ""
    for name, (settings, choice) in mistake_notes().items():
        page.value("document.querySelector('#mistakes-none').click()")
        page.value(f"document.querySelector('#mistakes input[value=\"{name}\"]').focus()")
        page.key(" ")
        first = FIRST.get(name) or FIRST.get(name.split(".")[0])
        expected = f"transformer.{first}" if first else "logits"
        lit = page.value("[...document.querySelectorAll('.stage.first')].map((e) => e.dataset.stage)")
        assert lit == [expected], name
        right = native.model("attend", **settings)["logits"]
        wrong = native.model("attend", mistakes=[choice], **settings)["logits"]
        shown = numbers(page, "#mistakes-moved")
        tolerance = 0.05 if name.startswith("numbers.") else EXACT
        assert numpy.allclose(shown, numpy.abs(right - wrong).max(), rtol=tolerance, atol=EXACT), name
        assert page.value("document.querySelectorAll('#mistakes-detail .code-pair pre').length") == 2


def test_a_mistakes_number_and_place_can_be_chosen(page, native):
    page.value("document.querySelector('#mistakes-none').click()")
    page.click("#mistakes label:has(input[value='attention.mask-finite'])")
    assert numbers(page, "#mistakes-moved")[0] > 0
    page.value("document.querySelector('#mistakes-detail input[type=number]').select()")
    page.type("-10000")
    page.key("Tab")
    assert numbers(page, "#mistakes-moved") == [0]
    page.click("#mistakes label:has(input[value='norm.ddof'])")
    page.value("const s = document.querySelector('[data-mistake=\"norm.ddof\"] [data-key=where]');"
               "s.value = 'transformer.ln_f'; s.dispatchEvent(new Event('change', {bubbles: true}))")
    assert page.value("document.querySelector('#mistakes').dataset.first") == "transformer.ln_f"
    # A switch takes the place of the one before, unless several are wanted.
    on = "[...document.querySelectorAll('#mistakes-families :checked')].map((e) => e.value)"
    assert page.value(on) == ["norm.ddof"]
    page.click("#mistakes-several")
    page.click("#mistakes label:has(input[value='position.offset'])")
    assert page.value(on) == ["norm.ddof", "position.offset"]
    assert page.value("document.querySelector('#mistakes').dataset.first") == "transformer.drop"


def test_recall_takes_a_prediction_before_it_reveals_and_counts(page):
    right = ["0, 0, 0, 0", "Nothing, but for rounding", 2.5, 64, "4", "1", "Tokens 5 to 8", "Some: e⁰ is 1",
             "The pre-norm stack", "0.065 %", "attn.c_proj", "Not necessarily"]
    assert page.value("document.querySelectorAll('.question').length") == len(right)
    for i, answer in enumerate(right):
        field = f"document.querySelector('#question-{i}')"
        button = f"{field}.querySelector('button')"
        assert page.value(f"{button}.disabled") and page.value(f"{field}.querySelector('.answer').hidden")
        if isinstance(answer, str):
            # The eighth is answered wrongly.
            choice = f"(e) => e.textContent {'!==' if i == 7 else '==='} {json.dumps(answer)}"
            page.value(f"[...{field}.querySelectorAll('.choice')].find({choice}).querySelector('input').focus()")
            page.key(" ")
        else:
            page.value(f"{field}.querySelector('input').focus()")
            page.type(str(answer))
        page.value(f"{button}.focus()")
        page.key("Enter")
        said = page.value(f"{field}.querySelector('.answer').textContent")
        assert said.startswith("It is “Some: e⁰ is 1”." if i == 7 else "Right."), said
        assert "[object" not in said
    score = "document.querySelector('#recall-score').textContent"
    assert page.value(score) == "11 right of 12 revealed, 0 to go"
    assert numbers(page, "#question-3 .answer") == pytest.approx([1, 4, 16, 64], rel=1e-12)
    page.click("#recall-again")
    assert page.value(score) == "0 right of 0 revealed, 12 to go"
