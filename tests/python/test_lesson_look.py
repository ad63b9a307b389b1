"""How the lesson page looks, in a real Chromium: no width at which something sticks out, light and dark
with enough contrast, every control named and reached by keyboard."""

import pytest
from lesson_browser import page, running  # noqa: F401, fixtures
from lesson_page import PAGE


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_at_any_width(running, width, dark):
    running.size(width, 740, mobile=width < 500, dark=dark)
    running.open(PAGE.as_uri())
    assert running.value("document.documentElement.scrollWidth") == width
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    assert running.value(scheme) == ("dark" if dark else "light")
    # The toggle goes system → light → dark.
    running.click("#theme")
    assert running.value(scheme) == "light"
    running.click("#theme")
    assert running.value(scheme) == "dark"
    running.click("#theme")


# The contrast of every visible text to what lies behind it (WCAG 2, 1.4.3), the lowest first.
CONTRAST = """(() => {
  const pencil = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    pencil.clearRect(0, 0, 1, 1);
    pencil.fillStyle = colour;
    pencil.fillRect(0, 0, 1, 1);
    return [...pencil.getImageData(0, 0, 1, 1).data].map((v, i) => (i < 3 ? v : v / 255));
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) =>
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    if (e === null) return rgba(getComputedStyle(document.body).backgroundColor);
    const own = rgba(getComputedStyle(e).backgroundColor);
    if (own[3] > 0.99) return own;
    return behind(e.parentElement).map((v, i) => (i < 3 ? v * (1 - own[3]) + own[i] * own[3] : 1));
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== '');
    if (!own || !e.checkVisibility() || e.closest('script, noscript, .skip, [aria-hidden], :disabled')) continue;
    const style = getComputedStyle(e), drawn = e instanceof SVGElement;
    if (style.display === 'none' || e.tagName === 'title') continue;
    const a = light(rgba(drawn ? style.fill : style.color)), b = light(behind(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([contrast, e.textContent.trim().slice(0, 40), e.className.baseVal ?? e.className]);
  }
  return found.sort((x, y) => x[0] - y[0]);
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out_from_its_ground(running, dark):
    running.size(1200, 900, dark=dark)
    running.open(PAGE.as_uri())
    running.value("document.querySelector('#mistakes input[value=\"structure.post-norm\"]').click();"
                  "document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    contrasts = running.value(CONTRAST)
    assert len(contrasts) > 500
    assert contrasts[0][0] >= 4.5, contrasts[:10]


def test_every_control_is_reached_and_named(page):
    unnamed = page.value("""
      [...document.querySelectorAll('input, select, button, [tabindex="0"], [role=img]')].filter((e) =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()))
        .map((e) => e.outerHTML.slice(0, 100))""")
    assert unnamed == []
    pictures = page.value("[...document.querySelectorAll('svg')].filter((e) =>"
                          " !e.closest('[aria-hidden]') && !e.getAttribute('aria-label')).length")
    assert pictures == 0
    page.value("document.body.focus(); document.querySelector('.skip').focus()")
    reached = set()
    for _ in range(60):
        page.key("Tab")
        reached.add(page.value("document.activeElement.closest('section, header')?.id"
                               " || document.activeElement.closest('header')?.className"))
    assert {"top", "norm", "place"} <= reached
    # Arrow keys read a grid's numbers.
    page.value("document.querySelector('#place .grid').focus()")
    page.key("ArrowRight", 2)
    read = page.value("document.querySelector('#place .readout').textContent")
    assert read.startswith("token 0 “n”, feature 2: ")
