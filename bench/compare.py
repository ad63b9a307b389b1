#!/usr/bin/env python3
"""The whole comparison of speed on this machine: its limits, our side, and each peer that is there,
in turn within one run.

    bench/compare.py --prenorm build/prenorm --python .venv/bin/python [--write docs/performance.md]
    bench/compare.py --llama-bench PATH --gguf gpt2-f32.gguf

Peers: PyTorch eager and compiled, Hugging Face's transformers; llama.cpp's llama-bench where it is
named, with a GPT-2 124M of its own format. A ratio above 1: we are faster. Takes about ten minutes;
--quick one or two. Only ratios within one run count: other programs on the machine change both sides.
"""
import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys

import compare_training

HERE = pathlib.Path(__file__).parent
TRAINING = ["width128", "width384", "gpt2"]
GENERATION = [("one sequence, f32", 1, "f32"), ("one sequence, bf16", 1, "bf16"),
              ("8 sequences, f32", 8, "f32")]


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


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
        rows = []
        for name, sequences, weights in GENERATION:
            flags = ["--sequences", str(sequences)]
            ours = self.prenorm("generate", "--vocab-size", "50257", "--weights", weights, *flags)
            theirs = self.torch("torch_generate.py", *flags)
            results = [(lines_of(ours)[-1], lines_of(theirs)[-1]) for _ in range(self.a.rounds)]
            for what in ("prompt", "decode"):
                key = what + "_tokens_per_second"
                mine, other = (max(r[i][key] for r in results) for i in (0, 1))
                best = max((r[0] for r in results), key=lambda r: r[key])
                if what == "prompt":
                    share = best["prompt_gflops_per_second"] / best["peak_gflops_per_second"]
                    limit = f"{100 * share:.0f} % of the peak"
                else:
                    limit = (f"weights at {best['weights_gb_per_second']:.1f} of "
                             f"{best['read_gb_per_second']:.1f} GB/s")
                rows.append([f"{name}, {what}", f"{mine:,.0f} tokens/s, {limit}",
                             f"{other:,.0f}", f"{mine / other:.2f} ×"])
                print(f"generation: {rows[-1]}", file=sys.stderr, flush=True)
        return table(["GPT-2 124M", "prenorm", "transformers", "ratio"], rows)

    def llama(self):
        command = [self.a.llama_bench, "-m", self.a.gguf, "-p", "512", "-n", "64", "-t",
                   str(self.a.threads), "-o", "jsonl"]
        rows = [[f"{r['n_prompt']} + {r['n_gen']}", f"{r['avg_ts']:.1f} tokens/s"]
                for r in lines_of(command)]
        return table(["llama.cpp, prompt + new", "speed"], rows)

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
    parser.add_argument("--llama-bench", help="llama.cpp's benchmark program")
    parser.add_argument("--gguf", help="the model for it")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="the page to write")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds = 1, 1.5
    if bool(a.llama_bench) != bool(a.gguf):
        parser.error("--llama-bench and --gguf: expected both or none, found one")
    comparison = Comparison(a)
    parts = [("Limits", comparison.limits), ("Training", comparison.training),
             ("Generation", comparison.generation), ("Attention", comparison.attention),
             ("Layers", comparison.layers)]
    if a.llama_bench:
        parts.insert(3, ("llama.cpp", comparison.llama))
    processor = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    page = ["# Performance", "",
            f"Written by `bench/compare.py --rounds {a.rounds} --seconds {a.seconds:g} --write "
            f"docs/performance.md` on {datetime.date.today()}: {processor}, {a.threads} threads. A "
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
