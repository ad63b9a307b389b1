"""What `prenorm diagnose` reads and writes: the fields of its answer, the report, names and file formats
of other programs, the hook and the probe, bad input. The runs are PyTorch's (mistaken_gpt.py)."""

import json

import numpy
import pytest
import torch
from diagnose_cases import Case, Folder, Shape, judge
from mistaken_gpt import Mistake, record
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2LMHeadModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("model"), Shape(n_layer=3, n_head=3, n_embd=48, time=20),
                  seed=3)


def ask(prenorm, case, directory, *more):
    done = prenorm(*case.write(directory), *more, expect=1 if case.mistakes else 0)
    return json.loads(done.out)


# --- What is read and written ---------------------------------------------------------------------


def test_the_answer_has_the_fields_of_the_contract(prenorm, folder, tmp_path):
    answer = ask(prenorm, Case(folder, [Mistake("norm.eps-value", value=1e-3)]), tmp_path)
    assert {"status", "mistakes", "first_divergence"} <= set(answer)
    assert answer["first_divergence"] == "transformer.h.0.ln_1"
    entry, = answer["mistakes"]
    assert {"name", "where", "value", "margin"} <= set(entry)
    assert entry["where"] == "everywhere" and entry["value"] == pytest.approx(1e-3, rel=0.1)
    assert entry["margin"] > 1


def test_the_text_has_the_mistake_the_fix_and_an_example(prenorm, folder, tmp_path):
    case = Case(folder, [Mistake("norm.ddof")], stages=False)
    arguments = [a for a in case.write(tmp_path) if a != "--json"]
    out = prenorm(*arguments, expect=1).out
    assert "norm.ddof" in out and "unbiased" in out
    clean = [a for a in Case(folder, []).write(tmp_path) if a != "--json"]
    assert "no mistake found: equal within float32 rounding" in prenorm(*clean).out


def test_the_report_is_a_page_of_its_own(prenorm, folder, tmp_path):
    case = Case(folder, [Mistake("attention.no-scale", "transformer.h.1")])
    ask(prenorm, case, tmp_path, "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html") and "attention.no-scale" in page
    assert "transformer.h.1.attn.c_proj" in page and "http://" not in page.replace(
        "http://www.w3.org/", "")


def test_the_embedding_sum_may_be_given_in_place_of_tokens(prenorm, folder, tmp_path):
    case = Case(folder, [Mistake("norm.rms")], stages=False)
    arguments = case.write(tmp_path)
    save_file({"input": folder.run([], torch.float32)["transformer.drop"]},
              tmp_path / "input.safetensors")
    done = prenorm(*arguments, expect=1)
    assert [m["name"] for m in json.loads(done.out)["mistakes"]] == ["norm.rms"]


def nanogpt(name):
    return name.replace("mlp.act", "mlp.gelu")


def transformer_lens(name):
    for ours, theirs in ((".attn.c_proj", ".hook_attn_out"), (".mlp.c_fc", ".mlp.hook_pre"),
                         (".mlp.act", ".mlp.hook_post"), (".mlp.c_proj", ".hook_mlp_out"),
                         (".ln_1", ".ln1.hook_normalized"), (".ln_2", ".ln2.hook_normalized"),
                         ("transformer.ln_f", "ln_final.hook_normalized")):
        if name.endswith(ours):
            return name.replace(ours, theirs).replace("transformer.h.", "blocks.")
    if name.startswith("transformer.h.") and name.count(".") == 2:
        return name.replace("transformer.h.", "blocks.") + ".hook_resid_post"
    return {"logits": "logits"}.get(name)


def llama_cpp(name):
    _, _, rest = name.partition("transformer.h.")
    layer, _, part = rest.partition(".")
    theirs = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.act": "ffn_gelu",
              "mlp.c_proj": "ffn_out", "": "l_out"}
    if rest:
        return f"{theirs[part]}-{layer}" if part in theirs else None
    return {"transformer.ln_f": "result_norm", "logits": "result_output"}.get(name)


@pytest.mark.parametrize("names", [nanogpt, transformer_lens, llama_cpp])
@pytest.mark.parametrize("mistake", [Mistake("norm.rms", "transformer.h.1.ln_2"),
                                     Mistake("activation.relu"), None])
def test_names_of_other_programs_are_known(prenorm, folder, tmp_path, names, mistake):
    case = Case(folder, [mistake] if mistake else [])
    arguments = case.write(tmp_path)
    theirs = {names(name): value for name, value in case.dump().items() if names(name)}
    assert len(theirs) > 3 * 4
    save_file(theirs, tmp_path / "theirs.safetensors")
    done = prenorm(*arguments, expect=1 if mistake else 0)
    assert not judge(case, json.loads(done.out))


def test_npz_and_npy_are_read(prenorm, folder, tmp_path):
    case = Case(folder, [Mistake("attention.no-mask")])
    arguments = case.write(tmp_path)[:-3]
    numpy.savez(tmp_path / "all.npz", **{k: v.numpy() for k, v in case.dump().items()})
    numpy.save(tmp_path / "logits.npy", case.dump()["logits"].numpy())
    for file in ("all.npz", "logits.npy"):
        done = prenorm(*arguments, "--theirs", tmp_path / file, "--json", expect=1)
        assert [m["name"] for m in json.loads(done.out)["mistakes"]] == ["attention.no-mask"], file


def test_the_hook_that_is_printed_dumps_what_is_read(prenorm, folder, tmp_path):
    code = prenorm("diagnose", "--emit-hook").out
    compile(code, "hook.py", "exec")
    assert "register_forward_hook" in code


@pytest.mark.parametrize("stages", [True, False], ids=["stages", "logits"])
def test_the_probe_shows_mistakes_in_bfloat16(prenorm, tmp_path, stages):
    prenorm("diagnose", "--emit-probe", tmp_path / "probe")
    model = GPT2LMHeadModel.from_pretrained(tmp_path / "probe", dtype=torch.bfloat16,
                                            attn_implementation="eager").eval()
    ids = load_file(tmp_path / "probe" / "input.safetensors")["input_ids"]
    for name, mistake in (("numbers.bf16", None), ("activation.relu", "relu")):
        if mistake:
            for layer in model.transformer.h:
                layer.mlp.act = nn.ReLU()
        dump = record(model, ids)
        save_file(dump if stages else {"logits": dump["logits"]}, tmp_path / "theirs.safetensors")
        done = prenorm("diagnose", "-m", tmp_path / "probe", "--input",
                       tmp_path / "probe" / "input.safetensors", "--theirs",
                       tmp_path / "theirs.safetensors", "--json", expect=1)
        answer = json.loads(done.out)
        assert answer["status"] == "named", answer
        named = {m["name"] for m in answer["mistakes"]}
        assert name in named and named <= {name, "numbers.bf16"}


# --- Bad input ------------------------------------------------------------------------------------


def without_a_dimension(x):
    return x[0, :, :-1].contiguous()


def with_a_nan(x):
    y = x.clone()
    y[0, 3, 5] = torch.nan
    return y


BAD_DUMPS = {
    "nothing": ({}, "logits"),
    "an unknown name": ({"transformer.h.0.ln_3": lambda d: d["logits"]}, "transformer.h.0.ln_3"),
    "a layer that is not there": ({"transformer.h.9.ln_1": lambda d: d["transformer.h.0.ln_1"]},
                                  "transformer.h.9.ln_1"),
    "a wrong shape": ({"logits": lambda d: without_a_dimension(d["logits"])}, "logits"),
    "a wrong width": ({"transformer.h.1.ln_1": lambda d: d["transformer.h.1.attn.c_attn"],
                       "logits": lambda d: d["logits"]}, "transformer.h.1.ln_1"),
    "whole numbers": ({"logits": lambda d: d["logits"].long()}, "logits"),
}


def one_line(done):
    line = done.err.strip()
    assert "\n" not in line and len(line) <= 300, line
    assert line.startswith("prenorm: ") and ": expected " in line and ", found " in line, line
    assert done.out == ""
    return line


@pytest.mark.parametrize("kind", BAD_DUMPS)
def test_a_bad_dump_is_refused_by_name(prenorm, folder, tmp_path, kind):
    case = Case(folder, [])
    arguments = case.write(tmp_path)
    made, name = BAD_DUMPS[kind]
    dump = case.dump()
    save_file({k: f(dump) for k, f in made.items()}, tmp_path / "theirs.safetensors")
    assert name in one_line(prenorm(*arguments, expect=3))


@pytest.mark.parametrize(("ids", "found"), [
    (torch.tensor([[1, 2, 101]]), "101"),
    (torch.tensor([[1, 2, -1]]), "-1"),
    (torch.zeros(1, 73, dtype=torch.int64), "73"),
    (torch.tensor([1.0, 2.0]), "F32"),
])
def test_bad_tokens_are_refused(prenorm, folder, tmp_path, ids, found):
    arguments = Case(folder, []).write(tmp_path)
    save_file({"input_ids": ids}, tmp_path / "input.safetensors")
    line = one_line(prenorm(*arguments, expect=3))
    assert "input_ids" in line and found in line


def test_a_missing_or_broken_file_is_refused(prenorm, folder, tmp_path):
    arguments = [str(a) for a in Case(folder, []).write(tmp_path)]
    for option in ("-m", "--input", "--theirs"):
        given = list(arguments)
        given[given.index(option) + 1] = str(tmp_path / "absent")
        assert "absent" in one_line(prenorm(*given, expect=3)), option
    for content in (b"", b"PK", b"\x08\0\0\0\0\0\0\0{broken}"):
        (tmp_path / "theirs.safetensors").write_bytes(content)
        assert "theirs.safetensors" in one_line(prenorm(*arguments, expect=3)), content


def test_wrong_usage_is_refused(prenorm, folder, tmp_path):
    arguments = Case(folder, []).write(tmp_path)
    prenorm("diagnose", expect=2)
    prenorm(*arguments[:3], expect=2)
    prenorm(*arguments, "--their", expect=2)


def test_numbers_that_are_none_are_said_and_located(prenorm, folder, tmp_path):
    case = Case(folder, [])
    arguments = case.write(tmp_path)
    dump = case.dump()
    dump["transformer.h.1.mlp.act"] = with_a_nan(dump["transformer.h.1.mlp.act"])
    save_file(dump, tmp_path / "theirs.safetensors")
    done = prenorm(*arguments, expect=None)
    assert done.returncode in (1, 3, 4)
    assert "transformer.h.1.mlp.act" in done.out + done.err
