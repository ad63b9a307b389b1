"""GPT-2's byte-level BPE: the same tokens as Hugging Face's `tokenizers`, on text of every kind, and
folders that each side reads from the other."""

import json
import random
import shutil

import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from transformers import AutoTokenizer, GPT2LMHeadModel, GPT2Tokenizer, PreTrainedTokenizerFast

END = "<|endoftext|>"
SCRIPTS = [(0x20, 0x7E), (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF),
           (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x3040, 0x30FF),
           (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x2000, 0x2BFF), (0x1F300, 0x1FAFF)]
SPACES = [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200C), 0x2028, 0x2029, 0x202F,
          0x205F, 0x3000, 0x180E, 0xFEFF, 0x1C]
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''", "'", END, "https://a.b/c?d=1&e",
          "snake_case", "The quick brown fox", "12,345.67", "e\u0301", "\u200d"]


def mixed_text(seed, size):
    """About `size` bytes of words, numbers, signs and white space of all of Unicode."""
    source, parts, length = random.Random(seed), [], 0
    while length < size:
        kind = source.random()
        if kind < 0.35:
            begin, end = source.choice(SCRIPTS)
            part = "".join(chr(source.randint(begin, end)) for _ in range(source.randint(1, 12)))
        elif kind < 0.55:
            part = " " * source.randint(1, 3)
        elif kind < 0.7:
            part = "".join(chr(source.choice(SPACES)) for _ in range(source.randint(1, 4)))
        elif kind < 0.85:
            part = "".join(chr(code) for code in (source.randrange(0x110000) for _ in range(4))
                           if not 0xD800 <= code < 0xE000)
        elif kind < 0.97:
            part = source.choice(PIECES)
        else:
            part = source.choice(["a", "^", "ab", "\u00e9", "\n", "\ud55c"]) * source.randint(1, 500)
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def encode(prenorm, folder, texts, tmp_path, *flags):
    """The ids of each text, by the program."""
    files = [tmp_path / f"{i}.txt" for i in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_bytes(text.encode())
    lines = prenorm("tokenize", "--tokenizer", f"gpt2:{folder}", *files, "--json", *flags).out
    return [json.loads(line)["ids"] for line in lines.splitlines()]


def encode_theirs(folder, texts, special):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = not special  # True: they are text
    return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A vocabulary of 800 tokens that `tokenizers` has trained and transformers has saved."""
    tokenizer = ByteLevelBPETokenizer()
    texts = [mixed_text(seed, 20_000) for seed in range(5)] + ["the cat sees the dog\n" * 500]
    tokenizer.train_from_iterator(texts, vocab_size=800, special_tokens=[END])
    folder = tmp_path_factory.mktemp("bpe")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, eos_token=END,
                            bos_token=END).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpt2(shared, tmp_path_factory):
    """GPT-2's vocabulary as transformers saves it, beside the two files it was read from."""
    source, folder = shared / "data" / "gpt2-bpe", tmp_path_factory.mktemp("gpt2")
    if not source.is_dir():
        pytest.skip("no vocabulary of GPT-2")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(source / name, folder)
    GPT2Tokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("special", [False, True])
def test_a_trained_vocabulary_encodes_as_tokenizers_does(prenorm, trained, tmp_path, special):
    texts = [mixed_text(seed, 100_000) for seed in range(10, 14)] + ["", "x", END, f"a{END}b"]
    ours = encode(prenorm, trained, texts, tmp_path, *(["--special"] if special else []))
    assert ours == encode_theirs(trained, texts, special)


def test_ten_megabytes_encode_as_tokenizers_does(prenorm, gpt2, tmp_path):
    texts = [mixed_text(seed, 500_000) for seed in range(20)]
    assert encode(prenorm, gpt2, texts, tmp_path) == encode_theirs(gpt2, texts, special=False)


def test_both_kinds_of_files_are_one_tokenizer(prenorm, gpt2, shared, tmp_path):
    texts = [mixed_text(1, 50_000), (shared / "data" / "tinyshakespeare.txt").read_text("utf-8")]
    ours = encode(prenorm, gpt2, texts, tmp_path, "--special")
    assert ours == encode(prenorm, shared / "data" / "gpt2-bpe", texts, tmp_path, "--special")


def test_every_byte_string_comes_back(prenorm, trained):
    source = random.Random(3)
    data = bytes(source.randrange(256) for _ in range(50_000)) + bytes(range(256)) + b"\xe2\x82"
    line = prenorm("tokenize", "--tokenizer", trained, "--json", stdin=data).stdout
    assert prenorm("tokenize", "-m", trained, "--decode", stdin=line).stdout == data


def test_a_run_on_bpe_tokens_opens_in_transformers(prenorm, trained, text_file, tmp_path):
    folder = tmp_path / "run"
    prenorm("train", text_file, "--tokenizer", f"gpt2:{trained}", "--out-dir", folder, "--n-layer",
            2, "--n-head", 2, "--n-embd", 32, "--block-size", 32, "--max-iters", 20, "--batch-size",
            8, "--seed", 1)
    tokenizer, before = (AutoTokenizer.from_pretrained(f) for f in (folder, trained))
    text = mixed_text(2, 5_000) + END + "the cat"
    ids = tokenizer(text)["input_ids"]
    assert ids == before(text)["input_ids"]
    assert ids == encode(prenorm, folder, [text], tmp_path, "--special")[0]
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert tokenizer.eos_token_id == before.eos_token_id == tokenizer.convert_tokens_to_ids(END)

    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    assert model.config.vocab_size == len(tokenizer) == 800
    prompt = tokenizer("the cat", return_tensors="pt")
    theirs = model.generate(**prompt, max_new_tokens=12, do_sample=False, pad_token_id=0)
    ours = prenorm("generate", "-m", folder, "-p", "the cat", "-n", 12, "--temp", 0, "--json").out
    assert json.loads(ours)["ids"] == theirs[0, prompt["input_ids"].shape[1]:].tolist()
