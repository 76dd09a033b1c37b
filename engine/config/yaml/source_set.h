#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
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
  bool is_argument(int source) const { return sources_[static_cast<std::size_t>(source)].is_argument; }
  /// A use, at `mark`, of a block or a file whose own marks say so by the number returned.
  int add_use(const Mark& mark);

  /// Throws config_error() of all so far where there are 200. What is wrong in the same way in every use of a block, or
  /// in every copy of a repeat, is one mistake, told of the first.
  void report(const Mark& mark, std::string message, std::string expectation = "", std::string suggestion = "");
  std::size_t num_mistakes() const { return num_reported_; }  ///< grows with each report
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
  std::vector<Mark> use_marks_;  ///< the first is number 1
  std::vector<std::shared_ptr<const SourceLocation>> uses_;
  std::set<std::tuple<int, int, int, std::string>> told_;
  std::size_t num_reported_ = 0;
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
