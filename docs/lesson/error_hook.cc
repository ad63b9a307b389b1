// Exceptions in the WebAssembly module. The textbook throws one line that says what was expected
// and what was found; the module is built without unwinding, so a throw ends here: the line goes to
// the page, which shows it, and the call stops. Nothing in the textbook knows of this.
#include <cstddef>
#include <cstring>
#include <exception>
#include <typeinfo>

__attribute__((import_module("page"), import_name("fail"))) void page_fail(const char* text,
                                                                           std::size_t bytes);

// Failed checks of the standard library. Its own versions print, and bring printf along.
[[noreturn]] void std::__libcpp_verbose_abort(const char* text, ...) {
  page_fail(text, std::strlen(text));
  __builtin_trap();
}
extern "C" [[noreturn]] void abort_message(const char* text, ...) {
  page_fail(text, std::strlen(text));
  __builtin_trap();
}

extern "C" {

// All errors are std::runtime_error, two words long.
void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  alignas(16) static char space[64];
  if (bytes > sizeof space) __builtin_trap();
  return space;
}

[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  const char* text = static_cast<const std::exception*>(thrown)->what();
  page_fail(text, std::strlen(text));
  __builtin_trap();
}

}  // extern "C"
