"""`prenorm generate` beside transformers: greedy text, log-probabilities, and the sampler, whose
choice is foretold from transformers' logits processors and the documented random number."""

import json
import os
import shutil
import subprocess

import pytest
import torch
from transformers import (AutoTokenizer, GPT2Config, GPT2LMHeadModel, MinPLogitsWarper,
                          RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper)

VOCABULARY, CONTEXT = 61, 64


@pytest.fixture(scope="module", params=[0, 1, 2])
def folder(request, tmp_path_factory):
    torch.manual_seed(request.param)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=24, n_layer=2, n_head=3,
                        initializer_range=0.4, bos_token_id=None, eos_token_id=7 + request.param)
    path = tmp_path_factory.mktemp("gpt2")
    GPT2LMHeadModel(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return GPT2LMHeadModel.from_pretrained(folder).eval()


def prompts_of(count, longest, seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(0, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def run(prenorm, tmp_path, folder, prompts, *flags):
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"ids": p}) + "\n" for p in prompts), encoding="utf-8")
    done = prenorm("generate", "-m", folder, "--prompts", file, "--json", *flags)
    return [json.loads(line) for line in done.out.splitlines()]


def logprobs_of(model, prompt, ids):
    with torch.no_grad():
        rows = model(torch.tensor([prompt + ids])).logits[0].double().log_softmax(-1)
    return [float(rows[len(prompt) + i - 1, token]) for i, token in enumerate(ids)]


def test_fifty_greedy_tokens_are_transformers(prenorm, folder, model, tmp_path):
    prompts = prompts_of(12, 14, 1)
    lines = run(prenorm, tmp_path, folder, prompts, "-n", 50, "--temp", 0)
    assert len(lines) == len(prompts)
    eos = model.generation_config.eos_token_id
    for prompt, line in zip(prompts, lines):
        inputs = torch.tensor([prompt])
        theirs = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False,
                                max_new_tokens=50, pad_token_id=eos)[0, len(prompt):].tolist()
        assert line["ids"] == theirs
        assert line["stop"] == ("eos" if theirs[-1] == eos else "length")
        assert line["text"] is None
        assert line["logprobs"] == pytest.approx(logprobs_of(model, prompt, theirs), abs=2e-5)


def test_ignore_eos_goes_on(prenorm, folder, tmp_path):
    lines = run(prenorm, tmp_path, folder, prompts_of(12, 10, 1), "-n", 50, "--temp", 0,
                "--ignore-eos")
    assert all(len(line["ids"]) == 50 and line["stop"] == "length" for line in lines)


def test_weights_in_bfloat16_are_those_of_the_converted_folder(prenorm, folder, tmp_path):
    prompts, flags = prompts_of(5, 9, 4), ("-n", 20, "--temp", 0)
    narrow = run(prenorm, tmp_path, folder, prompts, *flags, "--weights", "bf16")
    prenorm("convert", folder, "--out-dir", tmp_path / "bf16", "--dtype", "bf16")
    for weights in ("auto", "f32", "bf16"):
        assert run(prenorm, tmp_path, tmp_path / "bf16", prompts, *flags,
                   "--weights", weights) == narrow
    assert run(prenorm, tmp_path, folder, prompts, *flags) != narrow


def test_prompt_logprobs_choose_among_answers(prenorm, folder, model, tmp_path):
    prompts = [p for p in prompts_of(10, 40, 3)]
    lines = run(prenorm, tmp_path, folder, prompts, "-n", 0, "--prompt-logprobs")
    for prompt, line in zip(prompts, lines):
        assert line["ids"] == [] and line["prompt_ids"] == prompt
        assert line["prompt_logprobs"][0] is None
        expected = logprobs_of(model, prompt[:1], prompt[1:])
        assert line["prompt_logprobs"][1:] == pytest.approx(expected, abs=2e-5)


def philox(counter, key):
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF,
                   a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return counter


def random_number(seed, prompt, sample, position):
    """prenorm/base/philox.h with the purpose of sampling (7)."""
    key = philox([prompt, sample, 7, 0x70726E6D], [seed & 0xFFFFFFFF, seed >> 32])[:2]
    words = philox([position >> 1, 0, 0, 0], key)
    high, low = words[2 * (position & 1) : 2 * (position & 1) + 2]
    return ((high << 32 | low) >> 11) / 2.0**53


SETTINGS = [
    {},
    {"temp": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temp": 1.7, "top_k": 9, "top_p": 1.0, "min_p": 0.0},
    {"temp": 0.6, "top_k": 0, "top_p": 0.7, "min_p": 0.0},
    {"temp": 1.3, "top_k": 0, "top_p": 1.0, "min_p": 0.2},
    {"temp": 1.2, "top_k": 20, "top_p": 0.8, "min_p": 0.1, "repeat_penalty": 1.4},
    {"temp": 2.5, "top_k": 30, "top_p": 0.95, "min_p": 0.02, "repeat_penalty": 0.8},
    {"temp": 1.0, "top_k": 0, "top_p": 0.9, "min_p": 0.0, "frequency_penalty": 0.7,
     "presence_penalty": 0.4},
]


def distribution(logits, prompt, made, setting):
    """What transformers' processors leave of float64 logits, in their order."""
    flags = {"temp": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0,
             "frequency_penalty": 0.0, "presence_penalty": 0.0, **setting}
    scores, seen = logits.clone()[None], torch.tensor([prompt + made])
    if flags["repeat_penalty"] != 1.0:
        scores = RepetitionPenaltyLogitsProcessor(flags["repeat_penalty"])(seen, scores)
    for token in set(made):  # OpenAI's penalties, which transformers lacks
        scores[0, token] -= made.count(token) * flags["frequency_penalty"]
        scores[0, token] -= flags["presence_penalty"]
    warpers = [TemperatureLogitsWarper(flags["temp"])]
    if flags["top_k"]:
        warpers.append(TopKLogitsWarper(flags["top_k"]))
    if flags["top_p"] < 1.0:
        warpers.append(TopPLogitsWarper(flags["top_p"]))
    if flags["min_p"] > 0.0:
        warpers.append(MinPLogitsWarper(flags["min_p"]))
    for warper in warpers:
        scores = warper(seen, scores)
    return scores[0].softmax(-1)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: "-".join(s) or "defaults")
def test_each_choice_is_foretold_by_transformers_probabilities(prenorm, folder, model, tmp_path,
                                                               setting):
    prompts, samples, tokens, seed = prompts_of(3, 8, 5), 3, 12, 2**40 + 11
    flags = [text for name, value in setting.items()
             for text in ("--" + name.replace("_", "-"), value)]
    lines = run(prenorm, tmp_path, folder, prompts, "-n", tokens, "--num-samples", samples,
                "--seed", seed, "--ignore-eos", *flags)
    assert len(lines) == len(prompts) * samples
    certain = 0
    for i, line in enumerate(lines):
        prompt, sample = divmod(i, samples)
        with torch.no_grad():
            rows = model(torch.tensor([prompts[prompt] + line["ids"]])).logits[0].double()
        for position, token in enumerate(line["ids"]):
            logits = rows[len(prompts[prompt]) + position - 1]
            left = distribution(logits, prompts[prompt], line["ids"][:position], setting)
            sums = left.cumsum(-1)
            number = random_number(seed, prompt, sample, position)
            if float((sums - number).abs().min()) < 1e-5:
                continue  # too close to call in float
            certain += 1
            assert token == int((sums <= number).sum()), (i, position)
    assert certain > 0.95 * len(lines) * tokens


def test_text_prompts_and_stop_strings(prenorm, text_file, tmp_path):
    folder = tmp_path / "run"
    prenorm("train", "--data", text_file, "--tokenizer", "byte", "--out-dir", folder, "--n-layer",
            1, "--n-head", 2, "--n-embd", 32, "--block-size", 32, "--max-iters", 60,
            "--batch-size", 8)
    texts = ["the cat", "a", "small green dog or", "x" * 50]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    done = prenorm("generate", "-m", folder, "--prompts", file, "--json", "-n", 40, "--stop", "e",
                   "--seed", 5)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert len(lines) == len(texts)
    for line in lines:
        whole = tokenizer.decode(line["ids"])
        assert line["text"] == whole.split("e")[0]
        assert line["stop"] == ("string" if "e" in whole else "length")
        assert len(line["logprobs"]) == len(line["ids"])


def test_a_text_is_the_same_however_many_tokens_are_asked_for(prenorm, text_file, tmp_path):
    """Weights are packed after some tokens where many are to come; no bit may depend on it."""
    folder = tmp_path / "run"
    prenorm("train", "--data", text_file, "--tokenizer", "byte", "--out-dir", folder, "--n-layer",
            3, "--n-head", 2, "--n-embd", 32, "--block-size", 64, "--max-iters", 20,
            "--batch-size", 8)

    def ids(tokens):
        done = prenorm("generate", "-m", folder, "-p", "the cat", "-n", tokens, "--json",
                       "--ignore-eos", "--seed", 3)
        answer = json.loads(done.out)
        return answer["ids"], answer["logprobs"]

    few, many = ids(30), ids(50)
    assert len(many[0]) == 50
    assert (many[0][:30], many[1][:30]) == few


def test_a_weight_file_that_becomes_shorter_is_an_error_of_one_line(prenorm, folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"ids": [1, 2]}\n', encoding="utf-8")
    command = [prenorm.path, "generate", "-m", copy, "--prompts", prompts, "--json",
               "--ignore-eos", "-n", "100000000"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as running:
        try:
            assert "longer than the model's context" in running.stderr.readline()
            os.truncate(copy / "model.safetensors", 0)
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (running.returncode, out) == (3, "")
    assert err == "prenorm: a file that is in use: expected its size to stay, found it shorter\n"


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"ids": [1], "text": "a"}', '{"ids": []}',
                                  '{"ids": [61]}', '{"ids": [-1]}', '{"ids": ["a"]}',
                                  '{"text": "a"}'])
def test_a_bad_line_is_named(prenorm, folder, tmp_path, line):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"ids": [1]}\n\n' + line + "\n", encoding="utf-8")
    done = prenorm("generate", "-m", folder, "--prompts", file, "--json", expect=3)
    assert done.out == "" and "bad.jsonl, line 3: expected" in done.err
    assert done.err.count("\n") == 1
