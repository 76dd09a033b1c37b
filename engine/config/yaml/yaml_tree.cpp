#include "engine/config/yaml/yaml_tree.h"

#include <map>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/yaml_scan.h"

namespace trainer {
namespace {

/// Thrown through the YAML library when going on makes no sense; the mistake is already reported.
struct StopReading {};

/// Builds the tree from the library's events, which, unlike its nodes, also tell quotes, aliases and duplicate keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(SourceSet& sources, int source, std::string_view text, int skipped)
      : sources_(sources), source_(source), skipped_(skipped) {
    std::size_t begin = 0;
    while (begin <= text.size()) {
      std::size_t end = text.find('\n', begin);
      if (end == std::string_view::npos) end = text.size();
      lines_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Node take_root() { return std::move(root_); }

  Mark mark(const YAML::Mark& at, std::size_t num_bytes = 1) const {
    const auto line_index = static_cast<std::size_t>(std::max(0, at.line));
    const std::string_view line = line_index < lines_.size() ? lines_[line_index] : std::string_view();
    const std::size_t offset = std::min(line.size(), static_cast<std::size_t>(at.column));
    const std::size_t shift = at.line == 0 ? static_cast<std::size_t>(skipped_) : 0;
    const std::size_t length = num_code_points(line.substr(offset, num_bytes));
    return {source_, at.line + 1, static_cast<int>(code_points_before(at.line, line, offset) + shift) + 1,
            std::max(1, static_cast<int>(length))};
  }

  [[noreturn]] void stop(const Mark& at, std::string message, std::string expectation = "") {
    sources_.report(at, std::move(message), std::move(expectation));
    throw StopReading{};
  }

  void OnDocumentStart(const YAML::Mark& at) override {
    if (++num_documents_ > 1) stop(mark(at, 3), "a second YAML document starts here", "one document in a file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
    Node node;
    const std::string_view word = rest_of_line(at);
    node.absent = word.substr(0, 1) != "~" && word.substr(0, 1) != "n" && word.substr(0, 1) != "N";
    node.mark = mark(at, node.absent ? 1 : word.substr(0, 1) == "~" ? 1 : 4);
    add(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& begin, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(begin, tag);
    const YAML::Mark at = after_anchor(begin, anchor);
    Node node;
    node.kind = NodeKind::scalar;
    node.quoted = tag == "!";
    node.text = value;
    const std::string_view written = rest_of_line(at);
    if (!node.quoted && written.substr(0, value.size()) != value) {
      stop(mark(at), "this value goes on in the next line", "the value on one line; a new key ends with ':'");
    }
    node.mark = mark(at, node.quoted ? quoted_length(written) : value.size());
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) stop(mark(at), "this alias stands for the value that contains it");
    count(known->second.num_nodes, known->second.num_bytes, mark(at));
    if (!open_.empty() && open_.back().node.kind == NodeKind::map && !open_.back().has_key) {
      stop(mark(at), "an alias cannot be a key");
    }
    attach(Node(known->second.node));
  }

  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(at, tag, anchor, NodeKind::sequence);
  }
  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(at, tag, anchor, NodeKind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    Mark key_mark;
    std::unordered_map<std::string, int> key_lines;
    std::size_t nodes_before = 0;
    std::size_t bytes_before = 0;
  };
  struct Anchored {
    Node node;
    std::size_t num_nodes = 0;
    std::size_t num_bytes = 0;
  };

  /// The library's mark of an anchored value is that of the anchor.
  YAML::Mark after_anchor(YAML::Mark at, YAML::anchor_t anchor) const {
    const std::string_view rest = rest_of_line(at);
    if (anchor == 0 || !rest.starts_with('&')) return at;
    const std::size_t blank = std::min(rest.find_first_of(" \t"), rest.size());
    const std::size_t value = rest.find_first_not_of(" \t", blank);
    if (value != std::string_view::npos) at.column += static_cast<int>(value);
    return at;
  }

  /// Marks mostly come from left to right, so counting goes on from the last one: else a long line takes quadratic
  /// time.
  std::size_t code_points_before(int line_number, std::string_view line, std::size_t offset) const {
    if (line_number != counted_line_ || offset < counted_offset_) {
      counted_line_ = line_number;
      counted_offset_ = 0;
      counted_points_ = 0;
    }
    counted_points_ += num_code_points(line.substr(counted_offset_, offset - counted_offset_));
    counted_offset_ = offset;
    return counted_points_;
  }

  std::string_view rest_of_line(const YAML::Mark& at) const {
    const auto line = static_cast<std::size_t>(at.line);
    if (line >= lines_.size() || static_cast<std::size_t>(at.column) > lines_[line].size()) return {};
    return lines_[line].substr(static_cast<std::size_t>(at.column));
  }

  static std::size_t quoted_length(std::string_view written) {
    const char quote = written.empty() ? '"' : written[0];
    std::size_t end = 1;
    while (end < written.size()) {
      if (written[end] == quote && !(quote == '\'' && written.substr(end + 1, 1) == "'")) return end + 1;
      end += (quote == '"' && written[end] == '\\') || written[end] == quote ? 2 : 1;
    }
    return 1;
  }

  void refuse_tag(const YAML::Mark& at, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      stop(mark(at), "YAML tags are not supported", "the value without a tag");
  }

  void count(std::size_t num_nodes, std::size_t num_bytes, const Mark& at) {
    num_nodes_ += num_nodes;
    num_bytes_ += num_bytes;
    if (num_nodes_ > most_nodes)
      stop(at, fmt::format("more than {} values, counting each use of an alias", most_nodes));
    if (num_bytes_ > most_scalar_bytes) stop(at, "more than 4 MiB of text, counting each use of an alias");
  }

  void open(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    refuse_tag(at, tag);
    if (static_cast<int>(open_.size()) >= deepest_nesting) {
      stop(mark(at), fmt::format("nested more than {} deep", deepest_nesting));
    }
    if (!open_.empty() && open_.back().node.kind == NodeKind::map && !open_.back().has_key) {
      stop(mark(at), "a list or a map cannot be a key", "a word");
    }
    Open next;
    next.node.kind = kind;
    next.node.mark = mark(at);
    next.anchor = anchor;
    next.nodes_before = num_nodes_;
    next.bytes_before = num_bytes_;
    count(1, 0, next.node.mark);
    open_.push_back(std::move(next));
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) {
      Anchored anchored{done.node, num_nodes_ - done.nodes_before, num_bytes_ - done.bytes_before};
      count(anchored.num_nodes, anchored.num_bytes, done.node.mark);
      anchors_[done.anchor] = std::move(anchored);
    }
    attach(std::move(done.node));
  }

  void add(Node node, YAML::anchor_t anchor) {
    count(1, node.text.size(), node.mark);
    if (!open_.empty() && open_.back().node.kind == NodeKind::map && !open_.back().has_key) {
      take_key(node);
      return;
    }
    if (anchor != 0) {
      count(1, node.text.size(), node.mark);
      anchors_[anchor] = {node, 1, node.text.size()};
    }
    attach(std::move(node));
  }

  void take_key(const Node& node) {
    Open& map = open_.back();
    if (node.kind == NodeKind::null && node.absent) stop(node.mark, "the key before ':' is missing");
    map.has_key = true;
    map.key = node.kind == NodeKind::null ? "null" : node.text;
    map.key_mark = node.mark;
    if (map.key == "<<" && !node.quoted) {
      sources_.report(node.mark, "merge keys ('<<') are not supported", "extends: other.yaml at the top of the file");
    }
    const auto [first, is_new] = map.key_lines.emplace(map.key, node.mark.line);
    if (!is_new) {
      sources_.report(node.mark,
                      fmt::format("duplicate key '{}', first given on line {}", shortened(map.key), first->second),
                      "each key once");
    }
    if (map.key_lines.size() > most_keys) stop(node.mark, fmt::format("more than {} keys in one map", most_keys));
  }

  void attach(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == NodeKind::sequence) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.has_key = false;
    // Nothing was written, so the library's mark is that of whatever comes next.
    if (node.kind == NodeKind::null && node.absent) node.mark = parent.key_mark;
    const bool is_merge = parent.key == "<<";
    const bool is_duplicate = parent.node.find(parent.key) != nullptr;
    if (!is_merge && !is_duplicate) {
      parent.node.entries.push_back({std::move(parent.key), parent.key_mark, std::move(node)});
    }
  }

  SourceSet& sources_;
  int source_;
  int skipped_;
  std::vector<std::string_view> lines_;
  mutable int counted_line_ = -1;
  mutable std::size_t counted_offset_ = 0;
  mutable std::size_t counted_points_ = 0;
  Node root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t num_nodes_ = 0;
  std::size_t num_bytes_ = 0;
  int num_documents_ = 0;
};

/// The library's words where they do not tell what to do.
struct Explanation {
  std::string_view original;
  std::string_view message;
  std::string_view expectation;
};
constexpr Explanation explanations[] = {
    {"end of map not found", "this line does not line up with the keys above it",
     "the same indentation, and ':' after a key"},
    {"end of sequence not found", "this line does not line up with the list above it",
     "'- ' in the same column for each element"},
    {"illegal map value", "':' is not allowed here", "quotes around text that contains ': '"},
    {"end of map flow not found", "'{' is not closed here", "',' between entries and '}' after the last"},
    {"end of sequence flow not found", "'[' is not closed here", "',' between elements and ']' after the last"},
    {"illegal block entry", "'- ' is not allowed here", "the list indented below its key"},
    {"the referenced anchor is not defined", "no anchor of this name comes before", ""},
    {"unknown token", "this character cannot start a value", "quotes around the text"},
    {"unknown escape character: ", "this escape is unknown", "single quotes around text with backslashes"},
};

void report_library_error(SourceSet& sources, const TreeBuilder& builder, const YAML::Exception& error) {
  std::string message = error.msg;
  std::string expectation;
  for (const Explanation& explanation : explanations) {
    if (message.starts_with(explanation.original)) {
      message = explanation.message;
      expectation = explanation.expectation;
      break;
    }
  }
  sources.report(builder.mark(error.mark), message, expectation);
}

}  // namespace

std::optional<Node> parse_yaml(SourceSet& sources, int source, std::string_view text, int skipped) {
  if (text.size() > most_text_bytes) {
    sources.report({source, 1, 1, 1}, "the text is larger than 1 MiB", "a configuration");
    return std::nullopt;
  }
  if (!scan_yaml(sources, source, text, skipped)) return std::nullopt;
  TreeBuilder builder(sources, source, text, skipped);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const StopReading&) {
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    report_library_error(sources, builder, error);
    return std::nullopt;
  }
  return builder.take_root();
}

}  // namespace trainer
