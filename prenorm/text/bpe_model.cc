#include "prenorm/text/bpe_model.h"

#include <unordered_map>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm {
namespace {

using Ids = std::unordered_map<std::string_view, TokenId>;

std::string in_quotes(std::string_view text) { return "'" + printable(text, 40) + "'"; }

Ids ids_of(std::span<const std::string> tokens) {
  Ids ids;
  ids.reserve(tokens.size());
  TokenId id = 0;
  for (const std::string& token : tokens) {
    if (!token.empty()) ids.emplace(token, id);
    ++id;
  }
  return ids;
}

}  // namespace

std::vector<BpeMerge> resolve_merges(std::span<const std::string> tokens,
                                     std::span<const MergeText> merges, std::string_view name) {
  const Ids ids = ids_of(tokens);
  std::vector<BpeMerge> out;
  out.reserve(merges.size());
  std::string joined;
  const auto id_of = [&](std::string_view token, const MergeText& merge) {
    const auto it = ids.find(token);
    if (it == ids.end()) {
      throw FormatError(std::string(name) + ": expected tokens of the vocabulary in merge " +
                        std::to_string(out.size() + 1) + ", " + in_quotes(merge.left) + " + " +
                        in_quotes(merge.right) + ", found " + in_quotes(token));
    }
    return it->second;
  };
  for (const MergeText& merge : merges) {
    joined.assign(merge.left).append(merge.right);
    const TokenId left = id_of(merge.left, merge), right = id_of(merge.right, merge);
    out.push_back({left, right, id_of(joined, merge)});
  }
  return out;
}

void BpeModel::validate(std::string_view name) const {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw FormatError(std::string(name) + ": expected " + expected + ", found " + found);
  };
  if (tokens.empty()) refuse("a vocabulary", "no tokens");
  const auto holds = [&](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < tokens.size();
  };
  const std::string range = "0 to " + std::to_string(tokens.size() - 1);
  Ids ids = ids_of(tokens);
  std::vector<bool> named(tokens.size());
  for (const auto& [token, id] : ids) named[static_cast<std::size_t>(id)] = true;
  std::vector<bool> added(tokens.size());
  for (const AddedToken& token : added_tokens) {
    if (token.content.empty()) refuse("text in added tokens", "an empty one");
    if (!holds(token.id)) {
      refuse("ids " + range, std::to_string(token.id) + " for " + in_quotes(token.content));
    }
    const auto at = static_cast<std::size_t>(token.id);
    const auto [it, is_new] = ids.emplace(token.content, token.id);
    if (added[at] || (!tokens[at].empty() && tokens[at] != token.content) ||
        it->second != token.id) {
      refuse("each id and each token once",
             std::to_string(token.id) + " for the added token " + in_quotes(token.content));
    }
    added[at] = true;
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!named[id] && !added[id]) {
      refuse("ids " + range + ", each with a token of its own",
             tokens[id].empty() ? "no token for " + std::to_string(id)
                                : in_quotes(tokens[id]) + " twice");
    }
  }
  for (const BpeMerge& merge : merges) {
    for (const TokenId id : {merge.left, merge.right, merge.result}) {
      if (!holds(id)) refuse("ids " + range + " in merges", std::to_string(id));
    }
  }
}

}  // namespace prenorm
