#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/diagnostic.h"
#include "engine/config/yaml/config_node.h"

namespace trainer {

/// The texts that one configuration is made of, files and arguments, and the mistakes found in them.
class SourceSet {
 public:
  /// Returns the index that marks carry. An argument is one line whose name is its text.
  int add_file(std::string name, std::string text);
  int add_argument(const std::string& text);

  const std::string& name(int source) const { return sources_[static_cast<std::size_t>(source)].name; }
  /// The line without its end; "" beyond the last.
  std::string_view line(int source, int number) const;
  SourceLocation location(const Mark& mark) const;

  /// Throws config_error() of all so far where there are 200.
  void report(const Mark& mark, std::string message, std::string expectation = "", std::string suggestion = "");
  std::size_t num_mistakes() const { return mistakes_.size(); }
  bool has_mistakes() const { return !mistakes_.empty(); }
  /// Throws config_error() of all mistakes reported so far, if any.
  void throw_mistakes() const;

 private:
  struct Source {
    std::string name;
    std::string text;
    std::vector<std::size_t> line_offsets;
    bool is_argument = false;
  };
  std::vector<Source> sources_;
  struct Mistake {
    int source = 0;
    Diagnostic diagnostic;
  };
  /// In the order in which the sources were added, which is that of the command line.
  ConfigError error() const;

  std::vector<Mistake> mistakes_;
  std::size_t num_line_bytes_ = 0;
};

}  // namespace trainer
