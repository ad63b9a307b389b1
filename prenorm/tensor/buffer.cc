#include "prenorm/tensor/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{1} << 21;

// mmap aligned to `alignment` by mapping more and cutting the ends off.
void* map_aligned(std::size_t bytes, std::size_t alignment) {
  const std::size_t reserve = bytes + alignment;
  void* raw = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = (address + alignment - 1) / alignment * alignment;
  if (aligned != address) munmap(raw, aligned - address);
  const std::uintptr_t end = address + reserve;
  if (end != aligned + bytes)
    munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

Buffer::Buffer(std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) {
    throw MemoryError("memory: expected a size the system can give, found " +
                      std::to_string(bytes) + " bytes");
  }
  size_ = (bytes + kPage - 1) / kPage * kPage;
  const bool large = size_ >= kHugePage;
  void* memory = map_aligned(size_, large ? kHugePage : kPage);
  if (memory == nullptr) {
    throw MemoryError("memory: expected another " + std::to_string(size_) +
                      " bytes, found none left");
  }
  if (large) madvise(memory, size_, MADV_HUGEPAGE);  // a hint: refusal costs speed only
  data_ = static_cast<std::byte*>(memory);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace prenorm
