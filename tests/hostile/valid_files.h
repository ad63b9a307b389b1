// Small valid files of every format that a stranger may send: what the malformed ones are made
// from, and the seeds of the fuzzers. Made by code, the same bytes every time.
#pragma once
#include <map>
#include <string>

namespace prenorm::hostile {

using Files = std::map<std::string, std::string>;  // bytes by path in a folder

std::string valid_safetensors();  // "a" F32 [2, 3], "b" I64 [2], "c" BF16 [], with metadata
std::string valid_npy();          // float32 [2, 3] in Fortran order
std::string valid_npz();          // one member stored, one deflated
std::string valid_torch();        // a state dict with a tensor, a transposed one and scalars
std::string valid_pickle();       // what is inside of it
std::string valid_toml();
std::string valid_metrics();
std::string valid_state();  // training_state.json

Files valid_index();           // an index and two shards
Files valid_model();           // config, weights and byte tokenizer of a GPT
Files valid_bpe();             // tokenizer.json of a BPE
Files valid_gpt2_tokenizer();  // vocab.json and merges.txt
Files valid_wordpiece();       // tokenizer.json of a WordPiece
Files valid_vocabulary();      // vocab.txt
Files valid_encoder();         // a sentence encoder: BERT, pooling, WordPiece

// The header's length, the header, the data.
std::string safetensors(const std::string& header, const std::string& data = "");
// A model folder's config.json with one key set to a JSON value, or taken away where it is empty.
std::string gpt_config_with(const std::string& key, const std::string& value);
std::string bert_config_with(const std::string& key, const std::string& value);

}  // namespace prenorm::hostile
