// What a file really is that was meant to hold tensors and cannot be read: people save pointers,
// error pages and archives under the names of weights. For messages alone.
//
//   if (const auto what = impostor(bytes)) refuse("a safetensors file", *what);
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace prenorm {

// "a GGUF file", "a page of HTML or XML", …; nothing where it is not known, or where the bytes
// begin as safetensors does. Requires: a reader has refused the bytes, as all kinds are told by
// their first letters only.
std::optional<std::string_view> impostor(std::span<const std::byte> bytes);

}  // namespace prenorm
