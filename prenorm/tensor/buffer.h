// Owned, zeroed, 2 MiB-aligned memory on huge pages where the system gives them. Pages are touched
// on first use, so an unused tail costs address space only.
#pragma once
#include <cstddef>
#include <span>

namespace prenorm {

class Buffer {
 public:
  Buffer() = default;
  // Throws MemoryError when the system has no such memory.
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_), size_ / sizeof(float)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace prenorm
