#include "prenorm/text/stream_decoder.h"

#include "prenorm/base/utf8.h"

namespace prenorm {

std::string StreamDecoder::feed(std::string_view bytes) {
  pending_ += bytes;
  const std::size_t held = incomplete_utf8_suffix(pending_);
  std::string out = to_valid_utf8(std::string_view(pending_).substr(0, pending_.size() - held));
  pending_.erase(0, pending_.size() - held);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = to_valid_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace prenorm
