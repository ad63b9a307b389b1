#!/usr/bin/env python3
"""The whole comparison of speed on this machine: its limits, our side, and each peer that is there,
in turn within one run.

    bench/compare.py --prenorm build/prenorm --python .venv/bin/python [--write docs/performance.md]
    bench/compare.py --only generation --llama-cpp BIN --gguf-f32 FILE --gguf-f16 FILE \\
                     --ctranslate2 FOLDER --gpt2 FOLDER

Peers: PyTorch eager and compiled, Hugging Face's transformers; where they are named llama.cpp (the
folder of llama-batched-bench and llama-completion; `convert_hf_to_gguf.py GPT2 --outtype f32`) and
CTranslate2 (see bench/ctranslate2_generate.py), each with a GPT-2 124M of its own format. A ratio
above 1: we are faster. Takes about ten minutes; --quick one or two. Only ratios within one run
count: other programs on the machine change both sides.
"""
import argparse
import datetime
import pathlib
import platform
import sys

import compare_training
from generation_peers import peers_of
from processes import lines_of, seconds_of

HERE = pathlib.Path(__file__).parent
TRAINING = ["width128", "width384", "gpt2"]
GENERATION = [("one sequence, f32", 1, "f32"), ("one sequence, bf16", 1, "bf16"),
              ("8 sequences, f32", 8, "f32")]


def table(header, rows):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


class Comparison:
    def __init__(self, arguments):
        self.a = arguments
        self.ours = [arguments.prenorm, "bench"]
        self.flags = ["--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]

    def torch(self, script, *flags):
        return [self.a.python, str(HERE / script), *flags, *self.flags]

    def prenorm(self, part, *flags):
        return [*self.ours, part, "--json", *flags, *self.flags]

    def limits(self):
        limit = lines_of(self.prenorm("limits"))[0]
        return table(["limit", "measured"], [
            ["multiply-adds, float32", f"{limit['fma_gflops_per_second']:.0f} GFLOP/s"],
            ["reading memory on huge pages", f"{limit['read_gb_per_second']:.1f} GB/s"]])

    def training(self):
        rows = []
        for shape in TRAINING:
            steps = compare_training.Steps(shape, self.a.prenorm, self.a.python, compiled=True,
                                           rounds=self.a.rounds, machine=self.flags)
            best, median, memory = steps.best, steps.median, steps.memory
            ours = steps.rounds["prenorm"]
            peak = max(r["peak_gflops_per_second"] for r in ours)
            rate = ours[0]["gflop_per_step"] / best["prenorm"] * 1e3
            peers = "torch", "torch compiled"
            by_best, by_median = (min(of[peer] for peer in peers) / of["prenorm"]
                                  for of in (best, median))
            rows.append([shape, f"{best['prenorm']:.1f} ms, {100 * rate / peak:.0f} % of the peak",
                         f"{best['torch']:.1f} ms", f"{best['torch compiled']:.1f} ms",
                         f"{by_best:.2f} × (median {by_median:.2f} ×)",
                         f"{memory['prenorm']:.0f} of {memory['torch']:.0f} MB"])
            print(f"training {shape}: {rows[-1]}", file=sys.stderr, flush=True)
        return table(["training step", "prenorm", "PyTorch", "compiled", "against the better",
                      "memory"], rows)

    def generation(self):
        peers = peers_of(self.a, self.flags)
        rows = []
        for name, sequences, weights in GENERATION:
            command = self.prenorm("generate", "--vocab-size", "50257", "--weights", weights,
                                   "--sequences", str(sequences))
            ours, theirs = [], {peer.name: [] for peer in peers}
            for _ in range(self.a.rounds):
                ours.append(lines_of(command)[-1])
                for peer in peers:
                    theirs[peer.name].append(peer.speeds(sequences, weights))
            for k, what in enumerate(("prompt", "decode")):
                key = what + "_tokens_per_second"
                best = max(ours, key=lambda r: r[key])
                if what == "prompt":
                    share = best["prompt_gflops_per_second"] / best["peak_gflops_per_second"]
                    limit = f"{100 * share:.0f} % of the peak"
                else:
                    limit = (f"weights at {best['weights_gb_per_second']:.1f} of "
                             f"{best['read_gb_per_second']:.1f} GB/s")
                row = [f"{name}, {what}", f"{best[key]:,.0f} tokens/s, {limit}"]
                for results in theirs.values():
                    other = None if None in results else max(r[k] for r in results)
                    row.append(f"{other:,.0f} ({best[key] / other:.2f} ×)" if other else "")
                rows.append(row)
                print(f"generation: {row}", file=sys.stderr, flush=True)
        out = table(["GPT-2 124M", "prenorm", *(peer.name for peer in peers)], rows)
        return out + self.start(peers[-1]) if self.a.gpt2 else out

    def start(self, llama):
        """From the start of the process to its end after one token."""
        calls = 3 * self.a.rounds
        ours = seconds_of([self.a.prenorm, "generate", "-m", self.a.gpt2, "-p", "Hello", "-n", "1",
                           "--temp", "0", "--threads", str(self.a.threads)], calls)
        theirs = llama.start(calls)
        return table(["start to one token, float32", "prenorm", "llama.cpp"],
                     [["GPT-2 124M", f"{ours:.2f} s", f"{theirs:.2f} s ({theirs / ours:.2f} ×)"]])

    def attention(self):
        ours, theirs = [], []
        for _ in range(self.a.rounds):
            ours.append(lines_of(self.prenorm("attention")))
            theirs.append(lines_of(self.torch("torch_attention.py")))
        rows = []
        for i, line in enumerate(ours[0]):
            def best(results, key):
                return min(r[i][key] for r in results)
            mine, other = ([best(side, key) for key in ("forward_ms", "backward_ms")]
                           for side in (ours, theirs))
            share = max(r[i]["gflops_per_second"] / r[i]["peak_gflops_per_second"] for r in ours)
            rows.append([f"{line['batch']} × {line['time']:,}", f"{mine[0]:.2f} + {mine[1]:.2f} ms, "
                         f"{100 * share:.0f} % of the peak", f"{other[0]:.2f} + {other[1]:.2f} ms",
                         f"{sum(other) / sum(mine):.2f} ×", f"{line['scratch_mb']:.1f} MB"])
        return table(["attention at width 384", "prenorm, forward + backward", "PyTorch", "ratio",
                      "our memory"], rows)

    def layers(self):
        ours, theirs = [], []
        for _ in range(self.a.rounds):
            ours.append(lines_of(self.prenorm("layers")))
            theirs.append(lines_of(self.torch("torch_layers.py")))
        rows = []
        for i, line in enumerate(ours[0]):
            mine = min(r[i]["ms"] for r in ours)
            other = min(r[i]["ms"] for r in theirs)
            assert theirs[0][i]["layer"] == line["layer"] and theirs[0][i]["input"] == line["input"]
            rows.append([line["layer"], " × ".join(map(str, line["input"])), f"{mine:.3f} ms",
                         f"{other:.3f} ms", f"{other / mine:.2f} ×"])
        return table(["layer", "input", "prenorm", "PyTorch", "ratio"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prenorm", default="build/prenorm")
    parser.add_argument("--python", default=".venv/bin/python")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="folder of llama.cpp's programs")
    parser.add_argument("--gguf-f32", help="the model for it")
    parser.add_argument("--gguf-f16", help="the same in half precision, beside our bf16")
    parser.add_argument("--ctranslate2", help="folder of the model for CTranslate2")
    parser.add_argument("--gpt2", help="a GPT-2 124M as Hugging Face's folder, to time the start")
    parser.add_argument("--only", help="parts whose names hold this")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="the page to write")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds = 1, 1.5
    if bool(a.llama_cpp) != bool(a.gguf_f32):
        parser.error("--llama-cpp and --gguf-f32: expected both or none, found one")
    if a.gpt2 and not a.llama_cpp:
        parser.error("--gpt2: expected --llama-cpp to compare with, found none")
    comparison = Comparison(a)
    parts = [("Limits", comparison.limits), ("Training", comparison.training),
             ("Generation", comparison.generation), ("Attention", comparison.attention),
             ("Layers", comparison.layers)]
    if a.only:
        parts = [part for part in parts if a.only.lower() in part[0].lower()]
    processor = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    page = ["# Performance", "",
            f"Written by `bench/compare.py --rounds {a.rounds} --seconds {a.seconds:g} --write "
            "docs/performance.md`, with the flags of the peers in its tables, on "
            f"{datetime.date.today()}: {processor}, {a.threads} threads. A "
            "ratio above 1: prenorm is faster. Machines differ; run it on yours. What the shapes "
            "are: `bench/compare_training.py`; where a step's time goes: `prenorm bench train "
            "--profile`.", ""]
    for title, part in parts:
        page += [f"## {title}", "", *part()]
    text = "\n".join(page)
    if a.write:
        a.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
