// numpy's .npy format: one array, behind a header that is a Python dictionary.
//
//   const std::string bytes = read_file("input.npy");
//   const Tensor input = parse_npy(std::as_bytes(std::span(bytes)), "input.npy");
//
// Versions 1 to 3, C and Fortran order, little-endian numbers and bool. Refused: big-endian
// numbers, pickled objects, text, structures, and bytes behind the array.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "prenorm/formats/safetensors.h"

namespace prenorm {

// What an .npy file begins with.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// The array, without a name of its own. Its bytes are those given, or, of an array in Fortran
// order, a row-major copy that the tensor owns. `name` stands for the file in messages. Throws
// FormatError naming file and byte offset.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view name);

}  // namespace prenorm
