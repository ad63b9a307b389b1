#include "prenorm/text/bert_normalizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "prenorm/base/utf8.h"
#include "prenorm/text/unicode_classes.h"

namespace prenorm {
namespace {

struct BertRange {
  char32_t first, last;
};
// Unicode's canonical combining class, where it is not 0.
struct BertCombining {
  char32_t first, last;
  int value;
};
// Every step-th character from first to last has its small letter at `delta` from it.
struct BertLowerRun {
  char32_t first, last;
  int step, delta;
};
struct BertPart {
  char32_t character, part;
};

}  // namespace
}  // namespace prenorm

#include "prenorm/text/bert_decompositions-inl.h"
#include "prenorm/text/bert_tables-inl.h"

namespace prenorm {
namespace {

// Blocks of CJK ideographs, as BERT lists them.
constexpr BertRange kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                  {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                  {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

// The range that holds c, or null. Ranges are in ascending order.
template <typename Range, std::size_t N>
const Range* find(const Range (&ranges)[N], char32_t c) {
  const Range* it = std::ranges::lower_bound(ranges, c, {}, &Range::last);
  return it != std::end(ranges) && it->first <= c ? it : nullptr;
}

bool is_space(char32_t c) { return character_class(c) == CharacterClass::kSpace; }

std::u32string decoded(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    out.push_back(step.code_point);
    text.remove_prefix(step.length);
  }
  return out;
}

std::u32string cleaned(const std::u32string& text) {
  std::u32string out;
  for (const char32_t c : text) {
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (!line && find(kDropped, c) != nullptr) continue;
    out.push_back(is_space(c) ? U' ' : c);
  }
  return out;
}

std::u32string with_chinese_apart(const std::u32string& text) {
  std::u32string out;
  for (const char32_t c : text) {
    const bool apart = find(kChinese, c) != nullptr;
    if (apart) out.push_back(U' ');
    out.push_back(c);
    if (apart) out.push_back(U' ');
  }
  return out;
}

// Takes characters of a canonical decomposition and gives them in canonical order: neighbours of a
// combining class other than 0 in ascending order of it.
class CanonicalOrder {
 public:
  void add(char32_t c) {
    const BertCombining* combining = find(kCombiningClasses, c);
    if (combining == nullptr) flush();
    if (find(kMarks, c) != nullptr) return;
    if (combining == nullptr) {
      out_.push_back(c);
    } else {
      waiting_.emplace_back(combining->value, c);
    }
  }

  std::u32string finish() {
    flush();
    return std::move(out_);
  }

 private:
  void flush() {
    if (waiting_.empty()) return;
    std::ranges::stable_sort(waiting_, {}, &std::pair<int, char32_t>::first);
    for (const auto& [combining, c] : waiting_) out_.push_back(c);
    waiting_.clear();
  }

  std::u32string out_;
  std::vector<std::pair<int, char32_t>> waiting_;
};

// The Unicode standard, section 3.12.
bool add_hangul_syllable(char32_t c, CanonicalOrder& out) {
  constexpr char32_t kFirst = 0xAC00, kLast = 0xD7A3, kLeads = 0x1100, kVowels = 0x1161;
  constexpr char32_t kTrails = 0x11A7, kVowelCount = 21, kTrailCount = 28;
  if (c < kFirst || c > kLast) return false;
  const char32_t index = c - kFirst;
  out.add(kLeads + index / (kVowelCount * kTrailCount));
  out.add(kVowels + index % (kVowelCount * kTrailCount) / kTrailCount);
  if (index % kTrailCount != 0) out.add(kTrails + index % kTrailCount);
  return true;
}

std::u32string without_accents(const std::u32string& text) {
  CanonicalOrder out;
  for (const char32_t c : text) {
    if (add_hangul_syllable(c, out)) continue;
    const BertPart* part = std::ranges::lower_bound(kDecompositions, c, {}, &BertPart::character);
    if (part == std::end(kDecompositions) || part->character != c) out.add(c);
    for (; part != std::end(kDecompositions) && part->character == c; ++part) out.add(part->part);
  }
  return out.finish();
}

std::u32string lowered(const std::u32string& text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (c == 0x130) {  // the one character whose small form is two
      out += U"i\u0307";
      continue;
    }
    const BertLowerRun* run = find(kLowerRuns, c);
    const bool has = run != nullptr && static_cast<int>(c - run->first) % run->step == 0;
    out.push_back(has ? static_cast<char32_t>(static_cast<int>(c) + run->delta) : c);
  }
  return out;
}

}  // namespace

std::u32string bert_normalize(std::string_view bytes, const BertNormalization& how) {
  std::u32string text = decoded(bytes);
  if (how.clean_text) text = cleaned(text);
  if (how.handle_chinese_chars) text = with_chinese_apart(text);
  if (how.strip_accents) text = without_accents(text);
  if (how.lowercase) text = lowered(text);
  return text;
}

std::vector<std::string> bert_words(std::string_view text, const BertNormalization& how) {
  std::vector<std::string> words;
  bool inside = false;  // of a word that may go on
  for (const char32_t c : bert_normalize(text, how)) {
    const bool space = is_space(c), apart = !space && find(kPunctuation, c) != nullptr;
    if (!space) {
      if (!inside || apart) words.emplace_back();
      append_utf8(words.back(), c);
    }
    inside = !space && !apart;
  }
  return words;
}

}  // namespace prenorm
