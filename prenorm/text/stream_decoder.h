// Bytes of tokens, one after another, as text that can be shown at once: a character spread over
// several tokens appears when it is complete.
//
//   StreamDecoder decoder;
//   for (TokenId id : ids) out << decoder.feed(tokenizer.decode(id));
//   out << decoder.finish();
#pragma once
#include <string>
#include <string_view>

namespace prenorm {

class StreamDecoder {
 public:
  // The valid UTF-8 that is certain by now; bytes that can belong to no character become U+FFFD.
  std::string feed(std::string_view bytes);
  // What is left: U+FFFD if the stream ended inside a character, else nothing. Starts over.
  std::string finish();

 private:
  std::string pending_;  // the beginning of a character, at most 3 bytes
};

}  // namespace prenorm
