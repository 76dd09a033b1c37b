#include "datasets/text/added_token_finder.h"

#include <algorithm>
#include <utility>

namespace trainer {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) can_begin_[static_cast<unsigned char>(token.content.front())] = true;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::find(std::string_view text, std::size_t at) const {
  if (tokens_.empty()) return std::nullopt;
  for (; at < text.size(); ++at) {
    if (!can_begin_[static_cast<unsigned char>(text[at])]) continue;
    // Those that agree with the text so far, byte by byte fewer; they lie together, the shortest first.
    auto first = tokens_.begin(), last = tokens_.end();
    const AddedToken* longest = nullptr;
    for (std::size_t length = 0; first != last; ++length) {
      if (first->content.size() == length) {
        longest = &*first++;
        if (first == last) break;
      }
      if (at + length == text.size()) break;
      const auto byte = static_cast<unsigned char>(text[at + length]);
      const auto byte_of = [length](const AddedToken& token) {
        return static_cast<unsigned char>(token.content[length]);
      };
      first = std::lower_bound(first, last, byte,
                               [&](const AddedToken& token, unsigned char value) { return byte_of(token) < value; });
      last = std::upper_bound(first, last, byte,
                              [&](unsigned char value, const AddedToken& token) { return value < byte_of(token); });
    }
    if (longest != nullptr) return Found{at, longest->content.size(), longest->id};
  }
  return std::nullopt;
}

}  // namespace trainer
