#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace trainer {

/// What is wrong with a text as XML, as far as the plot uses it; empty: nothing.
inline std::string xml_mistake(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return "entity " + entity;
    }
    if (static_cast<unsigned char>(text[at]) < 0x20 && text[at] != '\n') return "a control character";
    if (text[at] != '<') {
      if (open.empty() && text[at] != '\n') return "text outside the root";
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without its end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != std::string::npos) return "<" + tag;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

/// How often `part` stands in the text.
inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace trainer
