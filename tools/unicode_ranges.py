"""Writes prenorm/text/unicode_ranges-inl.h: the ranges of letters and numbers of the Unicode
Character Database, as the general category gives them.

    pip install unicodedata2==16.0.0
    python3 tools/unicode_ranges.py > prenorm/text/unicode_ranges-inl.h

The version must be the one of the tokenizers to compare with; unicode_classes.h names it.
"""

import unicodedata2

LINE = 100


def ranges_of(first_letter):
    found = []
    for code in range(0x110000):
        if unicodedata2.category(chr(code))[0] != first_letter:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def print_ranges(name, first_letter):
    print(f"inline constexpr CodePointRange {name}[] = {{")
    line = "   "
    for begin, end in ranges_of(first_letter):
        item = f" {{0x{begin:X}, 0x{end:X}}},"
        if len(line) + len(item) > LINE:
            print(line)
            line = "   "
        line += item
    print(line.rstrip(",") + "};")


def main():
    print(f"""// Letters and numbers of the Unicode Character Database {unicodedata2.unidata_version}, first and last code point of
// each range. Written by tools/unicode_ranges.py; included by unicode_classes.cc alone.
#pragma once

namespace prenorm {{

struct CodePointRange {{
  char32_t first, last;
}};

// clang-format off""")
    print_ranges("kLetterRanges", "L")
    print()
    print_ranges("kNumberRanges", "N")
    print("// clang-format on\n\n}  // namespace prenorm")


if __name__ == "__main__":
    main()
