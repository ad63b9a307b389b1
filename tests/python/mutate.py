"""Mutates whole model folders at random and gives them to the program: whatever it makes of them,
it must end by itself in time, and an error must be one line that a user can read.

    python3 tests/python/mutate.py build/dev/prenorm --seconds 60 [--seed N] [--keep DIR]

The last line counts the runs by exit code. A folder that the program crashed, hung or took too much
on is a finding: it is kept, and the exit code is 1. Needs nothing but Python's standard library.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ADDRESS_SPACE = 1 << 30
MOST_SECONDS = 1.0
MOST_KIB = 256 << 10
# Done, differs, bad input, numerical failure. A mutated file may be a valid one.
ALLOWED = (0, 1, 3, 4)

PIECES = [
    b"\xff" * 8, b"\x00" * 8, b"-1", b"0", b"1e999", b"1e9", b"1000000000", b"2147483648",
    b"9223372036854775807", b"18446744073709551615", b"null", b"true", b"[", b"]", b"{", b"}",
    b'"', b",", b":", b"[[[[[[[[", b"../", b"/dev/zero", b"\\u0000", b"\\ud800", b"\xc3\x28",
    b"__metadata__", b"NaN", b"PK\x05\x06", b"\x93NUMPY", b"\n",
]


def mutate(data, rng):
    """A few random changes to bytes; numbers and pieces of syntax are preferred."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not data:
            return bytes(data)
        # Headers and the first fields decide most.
        at = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 400))
        kind = rng.randrange(9)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : at + rng.choice((1, 2, 8, 100))]
        elif kind == 3:
            data[at:at] = rng.choice(PIECES)
        elif kind == 4:
            piece = rng.choice(PIECES)
            data[at : at + len(piece)] = piece
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            data[at:at] = data[at : at + rng.choice((1, 8, 64))]
        elif kind == 7:  # another number in place of one
            digits = [i for i, b in enumerate(data[:20000]) if 48 <= b <= 57]
            if digits:
                begin = end = rng.choice(digits)
                while end < len(data) and 48 <= data[end] <= 57:
                    end += 1
                data[begin:end] = str(rng.choice((0, 1, 7, 255, 65536, 2**31, 2**63))).encode()
        else:
            other = rng.randrange(len(data))
            size = rng.choice((1, 4, 8, 32))
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def replace_by_something_else(path, rng):
    """A folder, a pipe, a device, a link to itself or to another file, nothing."""
    path.unlink()
    kind = rng.randrange(7)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/urandom", "/dev/null", "/dev/tty")))
    elif kind == 3:
        path.symlink_to(path.name)
    elif kind == 4:
        others = sorted(p.name for p in path.parent.iterdir())
        if others:
            path.symlink_to(rng.choice(others))
    elif kind == 5:
        path.write_bytes(b"")


def run(program, arguments, folder):
    """(exit code or -signal, seconds, peak KiB, standard error)."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
            preexec_fn=limit, cwd=folder, env={**os.environ, "PRENORM_THREADS": "1"})
        deadline = start + 30
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                child.kill()
            time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        used = usage.ru_utime + usage.ru_stime
        hung = time.monotonic() > deadline
        return child.returncode, 99.0 if hung else used, usage.ru_maxrss, err.read()


def fault_of(code, seconds, peak, err):
    """What is wrong with a run; None where nothing is."""
    if code not in ALLOWED:
        return f"exit code {code}"
    if seconds > MOST_SECONDS:
        return f"{seconds:.2f} s"
    if peak > MOST_KIB:
        return f"{peak >> 10} MiB"
    if code in (3, 4):
        line = err.split(b"prenorm: ", 1)[-1].split(b"\n")[0]
        if b"prenorm: " not in err or len(line) > 300:
            return "no line for a user"
        if b"internal error" in err or b"found none left" in err:
            return "an error without its cause"
    return None


def make_models(program, folder):
    """Folders and files of every kind, by the program itself."""
    text = folder / "text.txt"
    text.write_text("the cat sees the dog and the dog sees the cat.\n" * 60)
    flags = ["--n-layer", "2", "--n-head", "2", "--n-embd", "8", "--block-size", "8",
             "--batch-size", "2", "--max-iters", "4", "--eval-iters", "1", "--threads", "1"]

    def call(*arguments):
        subprocess.run([program, *map(str, arguments)], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    call("train", text, "--tokenizer", "char", "--out-dir", folder / "char", *flags)
    call("tokenize", "--train", text, "--vocab-size", "280", "--out-dir", folder / "bpe_only")
    call("train", text, "--tokenizer", f"gpt2:{folder / 'bpe_only'}", "--out-dir", folder / "bpe",
         *flags)
    call("convert", folder / "char", "--layout", "nanogpt", "--out-dir", folder / "nano")
    return text


def commands(folder, text, out):
    """What users do with the folder."""
    yield ["inspect", str(folder)]
    yield ["generate", "-m", str(folder), "-p", "the", "-n", "3"]
    yield ["convert", str(folder), "--out-dir", out]
    yield ["eval", "-m", str(folder), str(text)]
    yield ["tokenize", "-m", str(folder), str(text)]
    yield ["diff", str(folder), str(folder)]
    yield ["check", str(folder)]
    yield ["growth", "-m", str(folder), str(text)]
    weights = folder / "model.safetensors"
    yield ["inspect", str(weights)]
    yield ["apply", "gpt", "--params", str(folder), "--input", str(weights), "--output", out]
    yield ["apply", "block", "--params", str(weights), "--input", str(weights), "--output", out,
           "--heads", "2"]


def nano_commands(folder, out):
    checkpoint = str(folder / "ckpt.pt")
    yield ["inspect", checkpoint]
    yield ["convert", checkpoint, "--out-dir", out]
    yield ["diff", checkpoint, checkpoint]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="mutate-findings")
    options = parser.parse_args()
    program = str(Path(options.program).resolve())
    rng = random.Random(options.seed)
    codes, findings, folders = Counter(), 0, 0
    slowest = largest = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        text = make_models(program, scratch)
        out = str(scratch / "out")
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            kind = rng.choice(("char", "bpe", "nano"))
            folder = scratch / "mutated"
            shutil.copytree(scratch / kind, folder)
            files = sorted(p for p in folder.iterdir() if p.is_file()
                           and p.name not in ("report.html", "text.txt"))
            for path in rng.sample(files, rng.choice((1, 1, 2))):
                if rng.random() < 0.04:
                    replace_by_something_else(path, rng)
                else:
                    path.write_bytes(mutate(path.read_bytes(), rng))
            folders += 1
            tried = nano_commands(folder, out) if kind == "nano" else commands(folder, text, out)
            for command in rng.sample(list(tried), 3):
                result = run(program, command, scratch)
                codes[result[0]] += 1
                slowest, largest = max(slowest, result[1]), max(largest, result[2])
                fault = fault_of(*result)
                shutil.rmtree(out, ignore_errors=True)
                if fault is None:
                    continue
                findings += 1
                place = Path(options.keep) / f"{options.seed}-{folders}"
                shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True,
                                ignore=lambda d, names: [n for n in names
                                                         if not (Path(d) / n).is_file()])
                print(f"{fault}: prenorm {' '.join(command)}\n  kept as {place}\n  "
                      f"{result[3].decode(errors='replace')[-300:]}", flush=True)
            shutil.rmtree(folder)
    counted = ", ".join(f"{n} with {code}" for code, n in sorted(codes.items()))
    print(f"{folders} folders, {sum(codes.values())} runs ({counted}), {findings} findings; "
          f"at most {slowest:.2f} s of processor time and {largest >> 10} MiB")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
