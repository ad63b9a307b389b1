#include "prenorm/model/sentence_encoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "prenorm/base/error.h"
#include "prenorm/model/bert_checkpoint.h"

namespace prenorm {

SentenceEncoder::SentenceEncoder(const std::filesystem::path& folder)
    : config_(load_sentence_config(folder)),
      tokenizer_(load_wordpiece_tokenizer(config_.transformer)),
      model_(load_bert(config_.transformer)) {
  const Index most = model_->config().max_position_embeddings;
  const std::string name = config_.transformer.string();
  if (most < 3) {
    throw FormatError(name + ": expected max_position_embeddings of at least 3, found " +
                      std::to_string(most));
  }
  if (tokenizer_->vocab_size() > model_->config().vocab_size) {
    throw FormatError(name + ": expected a tokenizer of at most the model's " +
                      std::to_string(model_->config().vocab_size) + " tokens, found " +
                      std::to_string(tokenizer_->vocab_size()));
  }
  if (config_.max_seq_length == 0 || config_.max_seq_length > most) config_.max_seq_length = most;
}

std::vector<TokenId> SentenceEncoder::tokens(const std::string& text) const {
  return tokenizer_->with_frame(tokenizer_->encode_with_special_tokens(text),
                                config_.max_seq_length);
}

std::vector<float> SentenceEncoder::encode(const Runtime& run, std::span<const std::string> texts,
                                           Index batch) const {
  std::vector<std::vector<TokenId>> all;
  for (const std::string& text : texts) all.push_back(tokens(text));
  // Texts of like length together, so that little is padded.
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all[i].size(); });
  const auto columns = static_cast<std::size_t>(width());
  std::vector<float> vectors(texts.size() * columns);
  const auto step = static_cast<std::size_t>(std::max<Index>(batch, 1));
  for (std::size_t first = 0; first < order.size(); first += step) {
    const std::size_t count = std::min(step, order.size() - first);
    const std::size_t longest = all[order[first + count - 1]].size();
    std::vector<TokenId> ids(count * longest, model_->config().pad_token_id);
    std::vector<unsigned char> padding(count * longest, 1);
    for (std::size_t b = 0; b < count; ++b) {
      const std::vector<TokenId>& own = all[order[first + b]];
      std::ranges::copy(own, ids.begin() + static_cast<Index>(b * longest));
      std::fill_n(padding.begin() + static_cast<Index>(b * longest), own.size(), 0);
    }
    const auto rows = static_cast<Index>(count), time = static_cast<Index>(longest);
    Bert::Workspace work = model_->make_workspace(rows, time);
    BertBatch inputs{TokenMatrix(ids.data(), {rows, time})};
    inputs.padding = {padding.data(), {rows, time}};
    const Matrix hidden = model_->forward(run, work, inputs);
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t text = order[first + b];
      const auto length = static_cast<Index>(all[text].size());
      const auto out = std::span(vectors).subspan(text * columns, columns);
      pool_tokens(config_.pooling, hidden.rows(static_cast<Index>(b) * time, length), out);
      if (config_.normalize) normalize_vector(out);
    }
  }
  return vectors;
}

void pool_tokens(Pooling pooling, ConstMatrix hidden, std::span<float> out) {
  const Index time = hidden.dim(0), width = hidden.dim(1);
  for (Index i = 0; i < width; ++i) {
    double sum = 0.0;
    float largest = hidden[0][i];
    for (Index t = 0; t < time; ++t) {
      sum += static_cast<double>(hidden[t][i]);
      largest = std::max(largest, hidden[t][i]);
    }
    float& x = out[static_cast<std::size_t>(i)];
    switch (pooling) {
      case Pooling::kMean:
        x = static_cast<float>(sum / static_cast<double>(time));
        break;
      case Pooling::kCls:
        x = hidden[0][i];
        break;
      case Pooling::kMax:
        x = largest;
        break;
    }
  }
}

void normalize_vector(std::span<float> x) {
  double squares = 0.0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : x) value = static_cast<float>(static_cast<double>(value) / length);
}

}  // namespace prenorm
