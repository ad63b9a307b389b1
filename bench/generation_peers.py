"""Who else generates from a GPT-2 124M on this machine, for bench/compare.py. Each peer gives tokens
per second of a prompt of 512 tokens and of decoding 64 after it, for one or more sequences."""
import pathlib

from processes import lines_of, seconds_of

HERE = pathlib.Path(__file__).parent


class Script:
    """A peer with a script beside this one: in float32 only."""

    def __init__(self, name, command, flags):
        self.name, self.command, self.flags = name, command, flags

    def speeds(self, sequences, weights):
        if weights != "f32":
            return None
        line = lines_of([*self.command, "--sequences", sequences, *self.flags])[-1]
        return line["prompt_tokens_per_second"], line["decode_tokens_per_second"]


class LlamaCpp:
    """llama.cpp's llama-batched-bench. Its f16 stands beside our bf16: as many bytes."""
    name = "llama.cpp"

    def __init__(self, programs, f32, f16, threads):
        self.programs, self.models, self.threads = programs, {"f32": f32, "bf16": f16}, threads

    def speeds(self, sequences, weights):
        if not self.models[weights]:
            return None
        line = lines_of([self.programs / "llama-batched-bench", "-m", self.models[weights],
                         "-t", self.threads, "-npp", 512, "-ntg", 64, "-npl", sequences,
                         "-c", 1024 * sequences, "--output-format", "jsonl"])[-1]
        return line["speed_pp"], line["speed_tg"]

    def start(self, calls):
        """Seconds from the process's start to its end after one token."""
        return seconds_of([self.programs / "llama-completion", "-m", self.models["f32"],
                           "-t", self.threads, "-p", "Hello", "-n", 1, "--temp", 0, "-no-cnv",
                           "--no-warmup"], calls)


def peers_of(a, flags):
    """Those that the arguments of bench/compare.py name."""
    peers = [Script("transformers", [a.python, HERE / "torch_generate.py"], flags)]
    if a.ctranslate2:
        peers.append(Script("CTranslate2", [a.python, HERE / "ctranslate2_generate.py",
                                            a.ctranslate2], flags))
    if a.llama_cpp:
        peers.append(LlamaCpp(a.llama_cpp, a.gguf_f32, a.gguf_f16, a.threads))
    return peers
