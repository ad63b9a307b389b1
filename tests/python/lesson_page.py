"""The lesson page's parts for its tests: build.py as a module, the page's functions compiled for this
machine, and the small model as tensors."""

import ctypes
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import numpy
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "lesson" / "index.html"

ACTIVATIONS = ["relu", "gelu", "gelu-tanh", "gelu-quick"]


def load_build():
    spec = importlib.util.spec_from_file_location("lesson_build", ROOT / "docs/lesson/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_native(source, output, *flags):
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-ffp-contract=off", *flags,
                    f"-I{ROOT}", source, "-o", output], check=True)


class Native:
    """docs/lesson/lesson.cc compiled natively, with the same functions as core.js's `textbook`."""

    def __init__(self, folder):
        path = folder / "lesson.so"
        compile_native(ROOT / "docs/lesson/lesson.cc", path, "-shared", "-fPIC")
        self.library = library = ctypes.CDLL(str(path))
        doubles = ctypes.POINTER(ctypes.c_double)
        library.lesson_text.restype = ctypes.c_void_p
        library.lesson_numbers.restype = library.lesson_result_values.restype = doubles
        for name in ("lesson_result_name", "lesson_mistake_name", "lesson_mistake_says"):
            getattr(library, name).restype = ctypes.c_char_p
        library.lesson_begin.argtypes = [ctypes.c_int] * 3 + [ctypes.c_double]
        library.lesson_add_mistake.argtypes = [ctypes.c_int, ctypes.c_double]
        library.lesson_model.argtypes = [ctypes.c_double]
        library.lesson_growth.argtypes = [ctypes.c_int, ctypes.c_double]

    def put_text(self, text):
        data = text.encode()
        ctypes.memmove(self.library.lesson_text(len(data)), data, len(data))

    def results(self, count):
        found = {}
        for i in range(count):
            shape = self.library.lesson_result_rows(i), self.library.lesson_result_columns(i)
            values = self.library.lesson_result_values(i)
            name = self.library.lesson_result_name(i).decode()
            found[name] = numpy.array(values[: shape[0] * shape[1]]).reshape(shape)
        return found

    def mistakes(self):
        return [self.library.lesson_mistake_name(i).decode()
                for i in range(self.library.lesson_mistake_count())]

    def begin(self, post=False, activation="gelu-tanh", tied=True, eps=1e-5, mistakes=()):
        self.library.lesson_begin(post, ACTIVATIONS.index(activation), tied, eps)
        for mistake in mistakes:
            self.put_text("\n".join([mistake["name"], mistake.get("where", ""),
                                     mistake.get("text", "")]))
            given = mistake.get("number")
            self.library.lesson_add_mistake(given is not None, given or 0.0)

    def model(self, text, strength=1.0, **settings):
        self.begin(**settings)
        self.put_text(text)
        return self.results(self.library.lesson_model(strength))

    def layer_norm(self, x, weight, bias, eps, mistakes=()):
        self.begin(eps=eps, mistakes=mistakes)
        numbers = [*numpy.ravel(x), *weight, *bias]
        buffer = self.library.lesson_numbers(len(numbers))
        for i, value in enumerate(numbers):
            buffer[i] = value
        return self.results(self.library.lesson_layer_norm(len(x), len(weight)))

    def growth(self, depth, gain):
        return self.results(self.library.lesson_growth(depth, gain))

    def parameters(self):
        """Hugging Face's names and shapes, float64."""
        found = self.results(self.library.lesson_parameters())
        return {name: torch.tensor(values if values.shape[0] > 1 else values[0])
                for name, values in found.items()}


def tokens_of(text):
    return torch.tensor([["abcdefghijklmnopqrstuvwxyz ".index(letter) for letter in text]])


def mistake_notes():
    """mistakeNotes of page/mistake_notes.js: name → (settings, the choice its switch begins with)."""
    text = (PAGE.parent / "page" / "mistake_notes.js").read_text(encoding="utf-8")
    found = {}
    for name, rest in re.findall(r'^  "([a-z]+\.[a-z0-9-]+)": \{(.*?)\},$', text,
                                 re.MULTILINE | re.DOTALL):
        settings, choice = {}, {"name": name}
        if 'activation: "gelu"' in rest:
            settings["activation"] = "gelu"
        if "tied: false" in rest:
            settings["tied"] = False
        if number := re.search(r"\bnumber: ([-\de.]+)", rest):
            choice["number"] = float(number.group(1))
        if value := re.search(r'\btext: "([^"]+)"', rest):
            choice["text"] = value.group(1)
        found[name] = settings, choice
    return found
