"""`prenorm tokenize --train` beside Hugging Face's BpeTrainer: the same tokens, ids and merges, and
a folder that AutoTokenizer opens and encodes the same with."""

import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

SPECIAL = "<|endoftext|>"


def theirs(text, vocab_size, min_frequency=0):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=[SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def read(folder):
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    return model["vocab"], pairs


def mixed_text():
    """Words of several scripts, digits, runs and white space; the same every time."""
    alphabets = ["abcdeé", "абвгд", "日本語", "0123", "!?-_", "aaaa", "  \n\t"]
    out, state = [], 7
    for _ in range(6000):
        state = (state * 1103515245 + 12345) % 2**31
        letters = alphabets[state // 65536 % len(alphabets)]
        word = ""
        for _ in range(state // 1024 % 7 + 1):
            state = (state * 1103515245 + 12345) % 2**31
            word += letters[state // 65536 % len(letters)]
        out.append(word)
    return " ".join(out)


def compare(prenorm, tmp_path, text, vocab_size, *flags, **options):
    file, folder = tmp_path / "text.txt", tmp_path / "bpe"
    file.write_bytes(text.encode("utf-8"))
    prenorm("tokenize", "--train", "--vocab-size", vocab_size, file, "--out-dir", folder, *flags)
    expected = theirs(text, vocab_size, **options)
    model = json.loads(expected.to_str())["model"]
    vocab, merges = read(folder)
    assert merges == [list(m) if isinstance(m, (list, tuple)) else m.split(" ")
                      for m in model["merges"]]
    assert vocab == model["vocab"]
    return folder, expected


@pytest.mark.parametrize("vocab_size", [257, 300, 1000, 5000])
def test_tokens_and_merges_are_hugging_faces(prenorm, tmp_path, vocab_size):
    compare(prenorm, tmp_path, mixed_text(), vocab_size)


def test_a_least_frequency_is_theirs(prenorm, tmp_path):
    compare(prenorm, tmp_path, mixed_text(), 100000, "--min-frequency", 4, min_frequency=4)


def test_shakespeare(prenorm, shared, tmp_path):
    source = next(shared.rglob("tinyshakespeare.txt"), None)
    if source is None:
        pytest.skip("no tinyshakespeare.txt in the shared data")
    text = source.read_bytes().decode("utf-8")
    folder, expected = compare(prenorm, tmp_path, text, 4000)
    ids = json.loads(prenorm("tokenize", "--tokenizer", folder, source, "--json").out)["ids"]
    assert ids == expected.encode(text).ids


def test_auto_tokenizer_opens_it(prenorm, text_file, tmp_path):
    folder = tmp_path / "bpe"
    prenorm("tokenize", "--train", "--vocab-size", 400, text_file, "--out-dir", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "the cat sees  a zebra.\n\nété 日本 don't " + SPECIAL
    done = prenorm("tokenize", "--tokenizer", folder, "--special", "--json", stdin=text)
    ids = json.loads(done.out)["ids"]
    assert tokenizer(text)["input_ids"] == ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.eos_token == SPECIAL and tokenizer.eos_token_id == 0


def test_a_model_trains_on_it(prenorm, text_file, tmp_path):
    bpe, run = tmp_path / "bpe", tmp_path / "run"
    prenorm("tokenize", "--train", "--vocab-size", 300, text_file, "--out-dir", bpe)
    prenorm("train", "--data", text_file, "--tokenizer", f"gpt2:{bpe}", "--out-dir", run,
            "--n-layer", 1, "--n-head", 1, "--n-embd", 16, "--block-size", 16, "--max-iters", 3,
            "--batch-size", 2)
    done = prenorm("generate", "-m", run, "-p", "the cat", "-n", 5, "--json")
    assert json.loads(done.out)["ids"]
