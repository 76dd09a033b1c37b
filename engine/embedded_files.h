#pragma once

#include <span>
#include <string_view>

#include "engine/errors.h"

namespace trainer {

/// A file of the repository that is a part of the program, so that the program runs from anywhere: trainer_embed() in
/// CMakeLists.txt.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and ending
  std::string_view text;  ///< its bytes
};

// By name.
std::span<const EmbeddedFile> template_files();             ///< engine/config/templates/*.yaml
std::span<const EmbeddedFile> calibration_network_files();  ///< engine/train/measure/calibration_networks/*.yaml
std::span<const EmbeddedFile> digits_files();               ///< datasets/digits.csv.gz
std::span<const EmbeddedFile> page_template_files();        ///< engine/report/page/assets/*.html
std::span<const EmbeddedFile> page_style_files();           ///< engine/report/page/assets/*.css
std::span<const EmbeddedFile> page_script_files();          ///< engine/report/page/assets/*.js
std::span<const EmbeddedFile> dygraph_script_files();       ///< dygraph.min.js of dygraphs, which is not trainer's own
std::span<const EmbeddedFile> dygraph_style_files();        ///< dygraph.min.css

inline std::string_view text_of(std::span<const EmbeddedFile> files, std::string_view name) {
  for (const EmbeddedFile& file : files)
    if (file.name == name) return file.text;
  throw InternalError("internal error: a file was not made a part of the program");
}

}  // namespace trainer
