#!/usr/bin/env python3
"""Makes docs/lesson/index.html, the lesson page in one file: page/page.html with the styles, the
scripts and the WebAssembly module inside.

    docs/lesson/build.py           # writes index.html
    docs/lesson/build.py --fresh   # compiles the module even where its C++ has not changed
    docs/lesson/build.py --check   # says whether index.html is what the sources make

Where the C++ has not changed, the module of the present index.html is taken over, and Python is
enough. Compiling it needs Debian's clang-19, lld-19, wasi-libc, libc++-19-dev-wasm32,
libc++abi-19-dev-wasm32 and libclang-rt-19-dev-wasm32. The same sources give the same bytes.
"""

import argparse
import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = HERE / "page"
INDEX = HERE / "index.html"

COMPILER = "clang++-19"
CODE = ["docs/lesson/lesson.cc", "docs/lesson/error_hook.cc"]
# No fast-math and no contraction: the arithmetic is the library's. A throw ends in error_hook.cc.
FLAGS = ["--target=wasm32-wasi", "-std=c++20", "-Oz", "-flto", "-ffp-contract=off", "-fexceptions",
         "-fignore-exceptions", "-fno-threadsafe-statics", "-mexec-model=reactor", "-Wall",
         "-Wextra", "-Werror", "-Wl,--strip-all", "-I."]

STYLES = ["base.css", "figures.css"]
SECTIONS = ["norm", "place", "growth", "causality", "identity", "mistakes", "recall"]
SCRIPTS = ["core.js", "draw.js", "norm.js", "place_steps.js", "place.js", "growth.js",
           "causality.js", "identity.js", "mistake_notes.js", "mistakes.js", "questions.js",
           "recall.js", "start.js"]

INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:prenorm|docs)/[^"]+)"', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|("(?:\\.|[^"\\\n])*")')


def code_files():
    """The C++ that the module is made of: CODE and all that it includes, by path."""
    found, to_read = {}, list(CODE)
    while to_read:
        name = to_read.pop()
        if name not in found:
            found[name] = (ROOT / name).read_text(encoding="utf-8")
            to_read += INCLUDE.findall(found[name])
    return dict(sorted(found.items()))


def code_hash():
    """Of what the compiler sees: other comments and line breaks make no other module."""
    digest = hashlib.sha256("\n".join(FLAGS).encode())
    for name, text in code_files().items():
        bare = COMMENT.sub(lambda match: match.group(1) or " ", text)
        digest.update(f"\n{name}\n{' '.join(bare.split())}".encode())
    return digest.hexdigest()


def page_files():
    names = ["page.html", *STYLES, *(f"{s}.html" for s in SECTIONS), *SCRIPTS]
    return {name: (PAGE / name).read_text(encoding="utf-8") for name in names}


def page_hash():
    digest = hashlib.sha256()
    for name, text in page_files().items():
        digest.update(f"\n{name}\n{text}".encode())
    return digest.hexdigest()


def compiler_version():
    """Of the compiler of the module, or None where there is none that makes WebAssembly."""
    if shutil.which(COMPILER) is None or not list(Path("/usr/lib").glob("wasm32-wasi/libc.a")):
        return None
    said = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=False)
    return said.stdout.splitlines()[0].strip() if said.returncode == 0 else None


def compile_wasm():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lesson.wasm"
        subprocess.run([COMPILER, *FLAGS, *CODE, "-o", out], cwd=ROOT, check=True)
        return out.read_bytes()


def recorded(name, text=None):
    """What index.html says of itself: code, page, compiler or wasm; None where it says nothing."""
    if text is None:
        text = INDEX.read_text(encoding="utf-8") if INDEX.exists() else ""
    if name == "wasm":
        found = re.search(r'<script id="wasm"[^>]*>\s*([A-Za-z0-9+/=\s]+?)\s*</script>', text)
        return base64.b64decode(found.group(1)) if found else None
    found = re.search(rf'<meta name="lesson-{name}" content="([^"]*)"', text)
    return found.group(1) if found else None


def module(fresh):
    """The WebAssembly module and the compiler that made it."""
    wasm = recorded("wasm")
    if wasm is not None and recorded("code") == code_hash() and not fresh:
        return wasm, recorded("compiler")
    version = compiler_version()
    if version is None:
        sys.exit(f"build.py: {COMPILER}: expected Debian's clang-19 with its wasm32 packages (see "
                 "docs/lesson/README.md) to compile the module, found none")
    return compile_wasm(), version


def build(fresh=False):
    """The text of index.html."""
    wasm, version = module(fresh)
    files = page_files()
    encoded = base64.b64encode(wasm).decode()
    parts = {
        "code": code_hash(),
        "page": page_hash(),
        "compiler": version,
        "style": "".join(files[name] for name in STYLES),
        "sections": "".join(files[f"{name}.html"] for name in SECTIONS),
        "wasm": "\n".join(encoded[i : i + 100] for i in range(0, len(encoded), 100)),
        "script": "".join(files[name] for name in SCRIPTS),
    }
    # One pass, so that nothing in a part is taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], files["page.html"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    text = build(options.fresh)
    if options.check:
        same = INDEX.exists() and INDEX.read_text(encoding="utf-8") == text
        print("index.html is", "up to date" if same else "out of date: run docs/lesson/build.py")
        sys.exit(0 if same else 1)
    else:
        INDEX.write_text(text, encoding="utf-8", newline="\n")
        print(f"{INDEX.relative_to(ROOT)}: {INDEX.stat().st_size} bytes")


if __name__ == "__main__":
    main()
