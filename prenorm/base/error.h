// The error types of the library. Every error that a caller can meet is one of these, thrown with
// one line that names what was expected and what was found. Only the program's main() catches.
#pragma once
#include <stdexcept>
#include <string>

namespace prenorm {

// Base of all errors of the library.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A tensor of the wrong shape, or a dimension out of range. Names who, expected, got.
struct ShapeError : Error {
  using Error::Error;
};

// An option or a configuration that makes no sense: names the option, the range and the value.
struct ConfigError : Error {
  using Error::Error;
};

// Bytes that are not what their format promises. Names the path and, where known, the byte offset.
struct FormatError : Error {
  using Error::Error;
};

// Text or tokens that cannot be used: too short, not UTF-8, a character outside the vocabulary.
struct DataError : Error {
  using Error::Error;
};

// The operating system refused: a file that is missing, a folder that cannot be written.
struct IoError : Error {
  using Error::Error;
};

// More memory than the system gives.
struct MemoryError : Error {
  using Error::Error;
};

// Numbers that stopped being finite.
struct NumericalError : Error {
  using Error::Error;
};

// This machine cannot run the library (no fused multiply-add), or a chosen target is not here.
struct UnsupportedCpu : Error {
  using Error::Error;
};

}  // namespace prenorm
