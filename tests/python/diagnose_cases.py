"""Cases for `prenorm diagnose`: model folders written by transformers, runs of them in PyTorch with a
mistake inside (mistaken_gpt.py), and what a right answer is. Used by test_diagnose.py and by
bench/confusion.py.

    folder = Folder(path, Shape(n_layer=4), seed=1)
    case = Case(folder, [Mistake("norm.ddof")], "float32", stages=False)
    case.write(directory)                    the files that the program reads
    judge(case, answer)                      "" if the answer (its JSON) is right, else what is wrong
"""

import math
from dataclasses import asdict, dataclass

import torch
from mistaken_gpt import EVERYWHERE, Mistake, MistakenGpt, record
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.disable_progress_bar()
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NUMBERS = {"bfloat16": "numbers.bf16", "float16": "numbers.f16"}
KINDS = {"gelu": "activation.gelu-erf", "gelu_new": "activation.gelu-tanh",
         "gelu_pytorch_tanh": "activation.gelu-tanh", "relu": "activation.relu",
         "quick_gelu": "activation.gelu-quick"}


@dataclass(frozen=True)
class Shape:
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 64
    vocab_size: int = 101
    n_positions: int = 72
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    weights: str = "trained"  # initial, trained, outliers
    bias: bool = True
    batch: int = 2
    time: int = 24


def weight_of(name, p, shape, randn):
    """One parameter of a model as it looks after training: nothing is 0 or 1 any more."""
    width = shape.n_embd
    if ".ln_" in name:
        return 1 + 0.3 * randn(p.shape) if name.endswith("weight") else 0.2 * randn(p.shape)
    if name.endswith(".bias"):
        return (0.15 if shape.bias else 0.0) * randn(p.shape)
    if "wte" in name or "lm_head" in name:
        return 0.15 * randn(p.shape) + 0.05 * randn((1, width))
    if "wpe" in name:
        return 0.1 * randn(p.shape)
    gain = 0.6 if "c_proj" in name else 1.2
    return gain * p.shape[0] ** -0.5 * randn(p.shape)


@torch.no_grad()
def set_weights(model, shape, seed):
    generator = torch.Generator().manual_seed(seed)

    def randn(size):
        return torch.randn(size, generator=generator)

    for name, p in model.named_parameters():
        if shape.weights == "initial":
            if p.ndim == 2:
                deep = (2 * shape.n_layer) ** -0.5 if "c_proj" in name else 1.0
                p.copy_(0.02 * deep * randn(p.shape))
            continue
        p.copy_(weight_of(name, p, shape, randn))
        if shape.weights == "outliers":  # a few channels, as large models have them
            few = torch.rand(p.shape[-1], generator=generator) < 0.03
            if "wte" in name or "wpe" in name or ".ln_" in name and name.endswith("weight"):
                p[..., few] *= 8
            elif name.endswith("mlp.c_proj.weight"):
                p[..., few] *= 5


class Folder:
    """A model folder and token ids for it."""

    def __init__(self, path, shape, seed):
        self.path, self.shape, self.seed = path, shape, seed
        options = {k: v for k, v in asdict(shape).items()
                   if k not in ("weights", "bias", "batch", "time")}
        config = GPT2Config(**options, attn_implementation="eager", bos_token_id=0, eos_token_id=0,
                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        model = GPT2LMHeadModel(config).eval()
        set_weights(model, shape, seed)
        model.save_pretrained(path)
        generator = torch.Generator().manual_seed(seed + 1)
        self.ids = torch.randint(0, shape.vocab_size, (shape.batch, shape.time),
                                 generator=generator)
        self.runs = {}

    def run(self, mistakes, dtype, fused=False):
        """All stages, by PyTorch; `dtype` a torch dtype; with PyTorch's own attention or without."""
        key = (tuple(map(str, mistakes)), dtype, fused)
        if key not in self.runs:
            if len(self.runs) >= 64:  # they are large
                self.runs.pop(next(iter(self.runs)))
            self.runs[key] = record(MistakenGpt.load(self.path, mistakes, dtype, fused),
                                    self.ids)
        return self.runs[key]

    def distance(self, mistakes, others, stages=False, dtype=torch.float32):
        """How far two runs are apart in exact arithmetic, in units of a type's rounding: of the
        logits, or of the stage where it is the most."""
        a, b = self.run(mistakes, torch.float64), self.run(others, torch.float64)
        rounded = self.run(others, dtype)
        names = [n for n in a if n in b] if stages else ["logits"]
        if stages and set(a) != set(b):
            return math.inf
        return max(rms(a[n] - b[n]) / max(rms(rounded[n] - b[n]), 1e-30) for n in names)


def rms(x):
    return float(x.double().square().mean().sqrt())


# --- The mistakes ---------------------------------------------------------------------------------


def mistakes_everywhere(shape):
    """Every mistake of the table that can be made in such a model, with its values."""
    names = """norm.eps-outside-root norm.eps-misplaced norm.ddof norm.axis norm.no-affine
        norm.no-bias norm.rms norm.swapped-weights structure.post-norm structure.residual-from-norm
        structure.no-residual structure.no-final-norm structure.double-final-norm attention.no-mask
        attention.mask-zero attention.mask-shifted attention.mask-inverted attention.no-scale
        attention.scale-by-width attention.qkv-interleaved attention.head-axes
        attention.no-split-transpose attention.no-merge-transpose attention.softmax-axis
        numbers.f16-cache numbers.f16-gelu""".split()
    found = [Mistake(name) for name in names]
    found += [Mistake("norm.eps-value", value=v) for v in (1e-3, 3e-5, 1e-6, 1e-12)]
    found += [Mistake("attention.mask-finite", value=v) for v in (-2.0, -5.0, -1e4)]
    found += [Mistake("attention.qkv-order", value=v) for v in ("qvk", "kqv", "kvq", "vqk", "vkq")]
    found += [Mistake("position.offset", value=n) for n in (1, 3)]
    found += [Mistake(name) for name in sorted(set(KINDS.values()))
              if name != KINDS[shape.activation_function]]
    square = ["attn.c_proj"]
    if shape.n_inner == shape.n_embd:
        square += ["mlp.c_fc", "mlp.c_proj"]
    found += [Mistake("weights.transposed", value=f"{name}.weight") for name in square]
    if shape.bias:
        found += [Mistake("weights.no-bias", value=f"{name}.bias")
                  for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")]
    found.append(Mistake(f"weights.{'un' if shape.tie_word_embeddings else ''}tied-head"))
    return found


WHOLE_MODEL = ("position.offset", "weights.untied-head", "weights.tied-head",
               "structure.no-final-norm", "structure.double-final-norm")


def mistakes_in_one_place(shape, random):
    """Those that can be made in one layer or in one norm, each in a random one."""
    for mistake in mistakes_everywhere(shape):
        if mistake.name in WHOLE_MODEL:
            continue
        layer = f"transformer.h.{random.randrange(shape.n_layer)}"
        where = layer
        if mistake.name.startswith("norm.") and mistake.name != "norm.swapped-weights":
            where = random.choice([f"{layer}.ln_1", f"{layer}.ln_2", "transformer.ln_f"])
        yield mistake._replace(where=where)


# Two mistakes of one group would stand at the same place in the code: one would replace the other,
# or what both together mean would be open.
GROUPS = [
    ("norm.eps-value",), ("norm.eps-outside-root", "norm.eps-misplaced", "norm.ddof", "norm.axis",
                          "norm.rms"),
    ("norm.no-affine", "norm.no-bias", "norm.swapped-weights"),
    ("structure.post-norm", "structure.residual-from-norm", "structure.no-residual"),
    ("structure.no-final-norm", "structure.double-final-norm"),
    ("attention.no-mask", "attention.mask-zero", "attention.mask-finite", "attention.mask-shifted",
     "attention.mask-inverted"),
    ("attention.no-scale", "attention.scale-by-width"),
    ("attention.qkv-order", "attention.qkv-interleaved", "attention.head-axes",
     "attention.no-split-transpose"),
    ("attention.no-merge-transpose",), ("attention.softmax-axis",), ("position.offset",),
    ("activation.relu", "activation.gelu-erf", "activation.gelu-tanh", "activation.gelu-quick"),
    ("weights.transposed",), ("weights.no-bias",), ("weights.untied-head", "weights.tied-head"),
    ("numbers.f16-cache",), ("numbers.f16-gelu",),
]
GROUP_OF = {name: i for i, group in enumerate(GROUPS) for name in group}


def random_pair(folder, random, least=5.0, one_place=False):
    """Two mistakes that both show in the logits, and how many pairs were drawn for it."""
    for drawn in range(1, 1000):
        choices = mistakes_everywhere(folder.shape)
        pair = [random.choice(choices)]
        other = list(mistakes_in_one_place(folder.shape, random)) if one_place else choices
        pair.append(random.choice(other))
        if GROUP_OF[pair[0].name] == GROUP_OF[pair[1].name]:
            continue
        if Case(folder, pair, stages=False).beyond_finding():
            continue
        if all(folder.distance(pair, [m]) >= least for m in pair):
            return pair, drawn
    raise AssertionError("no pair that shows")


# --- Cases and answers ----------------------------------------------------------------------------


class Case:
    """A run of PyTorch in a type with mistakes inside, and what of it is given to the program."""

    def __init__(self, folder, mistakes, dtype="float32", stages=True, fused=False):
        self.folder, self.mistakes = folder, list(mistakes)
        self.dtype, self.stages, self.fused = dtype, stages, fused

    def __str__(self):
        what = " + ".join(map(str, self.mistakes)) or "clean"
        return f"{what} [{self.dtype}, {'stages' if self.stages else 'logits'}]"

    def dump(self):
        stages = self.folder.run(self.mistakes, DTYPES[self.dtype], self.fused)
        return stages if self.stages else {"logits": stages["logits"]}

    def write(self, directory):
        """The program's arguments."""
        directory.mkdir(parents=True, exist_ok=True)
        save_file({"input_ids": self.folder.ids}, directory / "input.safetensors")
        save_file(self.dump(), directory / "theirs.safetensors")
        return ["diagnose", "-m", self.folder.path, "--input", directory / "input.safetensors",
                "--theirs", directory / "theirs.safetensors", "--json"]

    def without(self, mistake):
        return [other for other in self.mistakes if other is not mistake]

    def must_be_named(self, mistake):
        """In float32: it moves the outputs by more than rounding; else: it moves them at all. Just
        above the rounding both answers are right."""
        if self.dtype == "float32":
            return self.folder.distance(self.mistakes, self.without(mistake), self.stages) >= 3
        ours = self.folder.run(self.mistakes, DTYPES[self.dtype])["logits"]
        others = self.folder.run(self.without(mistake), DTYPES[self.dtype])["logits"]
        return not torch.equal(ours, others)


    def beyond_finding(self):
        """An unknown head shows in the logits only where these have more rows than columns."""
        shape = self.folder.shape
        unknown = any(m.name == "weights.untied-head" for m in self.mistakes)
        return unknown and not self.stages and shape.batch * shape.time <= shape.n_embd


class CleanCase(Case):
    """A run of transformers' own model."""

    def __init__(self, folder, dtype, stages, attention):
        super().__init__(folder, [], dtype, stages)
        self.attention = attention

    def dump(self):
        model = GPT2LMHeadModel.from_pretrained(
            self.folder.path, attn_implementation=self.attention, dtype=DTYPES[self.dtype])
        stages = record(model.eval(), self.folder.ids)
        return stages if self.stages else {"logits": stages["logits"]}


def right_value(case, mistake, value):
    if mistake.name in ("norm.eps-value", "attention.mask-finite"):
        if not isinstance(value, (int, float)):
            return False
        if abs(value - mistake.value) <= 0.1 * abs(mistake.value):
            return True
        other = [*case.without(mistake), mistake._replace(value=value)]  # the rounding hides it
        return case.folder.distance(other, case.mistakes, case.stages, DTYPES[case.dtype]) < 3
    if mistake.name == "attention.mask-shifted":
        return value in (None, 1)
    return mistake.value is None or value == mistake.value


def right_place(mistake, where, layers):
    """By the text: everywhere if every layer has it, else the path of the one that has it."""
    if mistake.where == EVERYWHERE:
        own = {"position.offset": "transformer.wpe", "weights.untied-head": "lm_head",
               "weights.tied-head": "lm_head", "structure.no-final-norm": "transformer.ln_f",
               "structure.double-final-norm": "transformer.ln_f"}
        return where in (EVERYWHERE, own.get(mistake.name)) or layers == 1
    if layers == 1 and where == EVERYWHERE:
        return mistake.where == "transformer.h.0"
    module = (mistake.value or "").rpartition(".")[0] if mistake.name.startswith("weights.") else ""
    allowed = [mistake.where, f"{mistake.where}.{module}"]
    if mistake.name.startswith("attention.") or mistake.name == "numbers.f16-cache":
        allowed.append(f"{mistake.where}.attn")
    if mistake.name.startswith("activation.") or mistake.name == "numbers.f16-gelu":
        allowed += [f"{mistake.where}.mlp", f"{mistake.where}.mlp.act"]
    return where in allowed


def judge(case, answer):
    """"" for a right answer, else what is wrong with it."""
    layers = case.folder.shape.n_layer
    status, named = answer["status"], answer["mistakes"]
    names = [m["name"] for m in named]
    numbers = NUMBERS.get(case.dtype)
    wanted = {m.name: m for m in case.mistakes}
    if len(names) != len(set(names)):
        return f"named twice: {names}"
    for entry in named:
        mistake = wanted.get(entry["name"])
        if mistake is None and entry["name"] != numbers:
            return f"named {names}"
        if mistake is None:
            continue
        if not right_place(mistake, entry["where"], layers):
            return f"{mistake}: where {entry['where']}"
        if not right_value(case, mistake, entry["value"]):
            return f"{mistake}: value {entry['value']}"
    missing = [m for m in case.mistakes if m.name not in names]
    if status == "ambiguous":
        return judge_candidates(case, missing, answer.get("candidates", []))
    if status == "unknown":
        return "" if case.beyond_finding() else " ".join(["unknown", *names])
    shown = [m for m in missing if case.must_be_named(m)]
    if shown:
        return f"{status}: missing {', '.join(map(str, shown))}" + (f", named {names}" if names else "")
    if len(missing) == len(case.mistakes) and numbers and names != [numbers]:
        return f"{status}: expected {numbers}"
    if (status == "equal") != (not names):
        return f"{status} with {names}"
    return ""


def judge_candidates(case, missing, candidates):
    if case.dtype != "float32":
        return "ambiguous in " + case.dtype
    absent = [m.name for m in missing if m.name not in candidates]
    if absent:
        return f"ambiguous without {absent}: {candidates}"
    for name in candidates:
        if name not in [m.name for m in case.mistakes]:
            apart = least_distance(case, missing, name)
            if apart > 3:
                return f"ambiguous with {name}, which is {apart:.0f} roundings away"
    return "" if missing else f"ambiguous, nothing missing: {candidates}"


def least_distance(case, missing, name):
    """How near a run comes that has `name` in place of one of the missing mistakes."""
    least = math.inf
    for m in missing:
        def apart(value):
            other = Mistake(name, m.where, value)
            return case.folder.distance([*case.without(m), other], case.mistakes, case.stages)

        values = [o.value for o in mistakes_everywhere(case.folder.shape) if o.name == name]
        if name == "norm.eps-value":  # the nearest of a coarse scale, then of a fine one around it
            powers = range(-12, 1)
            best = min(powers, key=lambda p: apart(10.0 ** p))
            values = [10 ** (best + i / 20) for i in range(-20, 21)]
        elif name == "attention.mask-finite":
            values = [m.value or -1.0, -1.0, -10.0, -100.0, -1e3, -1e4, -1e5, -1e9]  # 0 has its own
        least = min([least, *map(apart, values or [None])])
    return least
