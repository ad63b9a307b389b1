#include "prenorm/text/bpe_tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "prenorm/base/utf8.h"
#include "prenorm/text/bpe_files.h"
#include "prenorm/text/byte_level.h"
#include "prenorm/text/gpt2_pattern.h"
#include "prenorm/text/piece_cache.h"

namespace prenorm {
namespace {

BpeModel validated(BpeModel model) {
  model.validate("BPE model");
  return model;
}

// Encodes parts of one text, one after another, into one sequence.
class Encoder {
 public:
  Encoder(std::string_view text, const BpeMerges& merges, const std::array<TokenId, 256>& byte_ids)
      : text_(text), byte_ids_(byte_ids), merger_(merges), cache_(text.size()) {}

  void token(TokenId id) { ids_.push_back(id); }

  // Text without added tokens. Requires: `part` is a part of the text.
  void text(std::string_view part) {
    while (!part.empty()) {
      const std::string_view piece = part.substr(0, gpt2_piece_length(part));
      part.remove_prefix(piece.size());
      if (piece.size() > PieceCache::kLongestPiece) {
        merge(piece);
      } else if (const PieceCache::Entry* known = cache_.find(piece)) {
        copy(known->begin, known->count);
      } else {
        const std::size_t begin = ids_.size();
        merge(piece);
        cache_.insert(piece, begin, ids_.size() - begin);
      }
    }
  }

  std::vector<TokenId> take() { return std::move(ids_); }

 private:
  void copy(std::size_t begin, std::size_t count) {
    const std::size_t end = ids_.size();
    ids_.resize(end + count);
    std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(begin), count,
                ids_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  void merge(std::string_view piece) {
    constexpr std::size_t kLongest = std::numeric_limits<std::uint32_t>::max() - 1;
    const auto offset = static_cast<std::size_t>(piece.data() - text_.data());
    if (piece.size() > kLongest) {
      throw EncodeError("text", offset, "words of less than 4 GiB", "a longer one");
    }
    symbols_.resize(piece.size());
    for (std::size_t i = 0; i < piece.size(); ++i) {
      symbols_[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
      if (symbols_[i] < 0) {
        throw EncodeError("text", offset + i, "bytes that the vocabulary has a token for",
                          "'" + printable(piece.substr(i, 1)) + "'");
      }
    }
    merger_.merge(symbols_);
    ids_.insert(ids_.end(), symbols_.begin(), symbols_.end());
  }

  std::string_view text_;
  const std::array<TokenId, 256>& byte_ids_;
  BpeMerger merger_;
  PieceCache cache_;
  std::vector<TokenId> ids_, symbols_;
};

}  // namespace

BpeTokenizer::BpeTokenizer(BpeModel model)
    : model_(validated(std::move(model))),
      merges_(model_.merges),
      added_tokens_(model_.added_tokens) {
  std::vector<const AddedToken*> added(model_.tokens.size());
  for (const AddedToken& token : model_.added_tokens) {
    added[static_cast<std::size_t>(token.id)] = &token;
  }
  byte_ids_.fill(-1);
  begin_.reserve(model_.tokens.size() + 1);
  for (std::size_t id = 0; id < model_.tokens.size(); ++id) {
    const std::size_t begin = bytes_.size();
    begin_.push_back(begin);
    // A token with characters outside the alphabet stands for itself, as in Hugging Face's decoder.
    if (!append_byte_level_bytes(bytes_, model_.tokens[id])) {
      bytes_ += model_.tokens[id];
    } else if (bytes_.size() == begin + 1) {
      byte_ids_[static_cast<unsigned char>(bytes_.back())] = static_cast<TokenId>(id);
    }
    if (added[id] != nullptr) bytes_.replace(begin, std::string::npos, added[id]->content);
  }
  begin_.push_back(bytes_.size());
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, bool special) const {
  Encoder encoder(text, merges_, byte_ids_);
  for (const AddedTokens::Part& part : added_tokens_.split(text, special)) {
    if (part.id >= 0) {
      encoder.token(part.id);
    } else {
      encoder.text(part.text);
    }
  }
  return encoder.take();
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text) const {
  return encode(text, false);
}

std::vector<TokenId> BpeTokenizer::encode_with_special_tokens(std::string_view text) const {
  return encode(text, true);
}

std::string_view BpeTokenizer::token_bytes(TokenId id) const {
  const auto at = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(begin_[at], begin_[at + 1] - begin_[at]);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError("token id: expected 0 to " + std::to_string(vocab_size() - 1) + ", found " +
                      std::to_string(id));
    }
    text += token_bytes(id);
  }
  return text;
}

void BpeTokenizer::save(const std::filesystem::path& folder) const {
  save_bpe_model(folder, model_);
}

std::unique_ptr<BpeTokenizer> load_bpe_tokenizer(const std::filesystem::path& folder) {
  return std::make_unique<BpeTokenizer>(read_bpe_model(folder));
}

}  // namespace prenorm
