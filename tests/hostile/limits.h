// What a hostile file of up to 1 MiB may cost, and whether this build can be held to it.
#pragma once
#include <cstddef>

namespace prenorm::hostile {

inline constexpr double kMostSeconds = 1.0;
inline constexpr std::size_t kMostBytes = 256u << 20;               // of memory in use
inline constexpr std::size_t kAddressSpace = std::size_t{1} << 30;  // what the process may ask for

// A sanitizer's own memory is many times the program's, and its time some times. (GCC defines
// macros, Clang has features.)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PRENORM_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(PRENORM_SANITIZED)
inline constexpr bool kMeasured = false;
#else
inline constexpr bool kMeasured = true;
#endif

}  // namespace prenorm::hostile
