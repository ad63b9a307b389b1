"""Writes the tables of prenorm/text/bert_normalizer.cc: which characters BERT's tokenizer drops,
splits at, strips and lower-cases.

    pip install tokenizers==0.23.3 unicodedata2==16.0.0
    python3 tools/bert_tables.py prenorm/text

Hugging Face's tokenizers use the tables of several versions of Unicode side by side, so the classes
are asked of them, one character at a time; only the combining classes come from unicodedata2, for
the characters that the tokenizers put in canonical order.
"""

import sys
from pathlib import Path

import unicodedata2
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

LINE = 100
OFF = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
       "lowercase": False}
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)


def normalizer(option):
    made = BertNormalizer(**{**OFF, option: True})
    return lambda code: made.normalize_str(chr(code))


def is_punctuation(code):
    pieces = BertPreTokenizer().pre_tokenize_str(f"a{chr(code)}b")
    return [text for text, _ in pieces] == ["a", chr(code), "b"]


def combining_class(code):
    """Unicode's, where the tokenizers know it: they then sort the character behind U+0334's 1."""
    value = unicodedata2.combining(chr(code))
    if value <= 1:
        return value
    known = NFD().normalize_str(chr(code) + "\u0334") != chr(code) + "\u0334"
    return value if known else 0


def ranges_of(values):
    """[first, last, value] of the stretches of equal values that are not 0."""
    found = []
    for code, value in values:
        if not value:
            continue
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def lower_runs(lower):
    """[first, last, step, delta]: every step-th character from first to last gets delta added."""
    found = []
    for code, target in lower:
        delta = target - code
        if found and found[-1][3] == delta:
            first, last, step, _ = found[-1]
            if first == last and code - last <= 2:
                found[-1][1:3] = [code, code - last]
                continue
            if code - last == step:
                found[-1][1] = code
                continue
        found.append([code, code, 1, delta])
    return found


def items(name, type_name, texts):
    lines, line = [f"inline constexpr {type_name} {name}[] = {{"], "   "
    for text in texts:
        item = f" {text},"
        if len(line) + len(item) > LINE:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([*lines, line.rstrip(",") + "};"])


def file(comment, body):
    return (f"// {comment}\n// Written by tools/bert_tables.py; included by bert_normalizer.cc alone."
            "\n#pragma once\n\nnamespace prenorm {\n\n// clang-format off\n" + body +
            "\n// clang-format on\n\n}  // namespace prenorm\n")


def classes():
    clean, strip, lower = map(normalizer, ("clean_text", "strip_accents", "lowercase"))

    def ranges(name, test):
        found = ranges_of((code, test(code)) for code in CODES)
        return items(name, "BertRange", (f"{{0x{a:X}, 0x{b:X}}}" for a, b, _ in found))

    combining = ranges_of((code, combining_class(code)) for code in CODES)
    single = [(c, ord(lower(c))) for c in CODES if lower(c) != chr(c) and len(lower(c)) == 1]
    several = [(c, lower(c)) for c in CODES if len(lower(c)) > 1]
    assert several == [(0x130, "i\u0307")]  # written out in bert_normalizer.cc
    return "\n\n".join([
        ranges("kDropped", lambda c: clean(c) == ""),
        ranges("kMarks", lambda c: strip(c) == ""),
        ranges("kPunctuation", is_punctuation),
        items("kCombiningClasses", "BertCombining",
              (f"{{0x{a:X}, 0x{b:X}, {v}}}" for a, b, v in combining)),
        items("kLowerRuns", "BertLowerRun",
              (f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}" for a, b, s, d in lower_runs(single)))])


def decompositions():
    marks = {c for c in CODES if normalizer("strip_accents")(c) == ""}
    pairs = []
    for code in CODES:
        text = NFD().normalize_str(chr(code))
        if code in HANGUL or text == chr(code):
            continue
        kept = [ord(c) for c in text if ord(c) not in marks]
        if code in marks and not kept:
            continue
        assert kept
        pairs += [(code, part) for part in kept]
    return items("kDecompositions", "BertPart", (f"{{{a},{b}}}" for a, b in pairs))


def main():
    folder = Path(sys.argv[1])
    (folder / "bert_tables-inl.h").write_text(file(
        "Classes of characters as Hugging Face's BERT tokenizer has them.", classes()))
    (folder / "bert_decompositions-inl.h").write_text(file(
        "Canonical decompositions without nonspacing marks: each part of a character beside it, in\n"
        "// order. Hangul syllables are computed.",
        decompositions()))


if __name__ == "__main__":
    main()
