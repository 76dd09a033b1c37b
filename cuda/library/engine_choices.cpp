#include "cuda/library/engine_choices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/text/json_input.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

std::string read_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

const char* name_of(ConvolutionDirection direction) {
  switch (direction) {
    case ConvolutionDirection::forward:
      return "forward";
    case ConvolutionDirection::input_gradient:
      return "input_gradient";
    case ConvolutionDirection::weight_gradient:
      return "weight_gradient";
  }
  throw InternalError("internal error: a convolution of no known direction");
}

/// None where the file is damaged: they are timed anew, and it is replaced.
std::map<std::string, std::string> read_choices(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const auto choices = parse_json<nlohmann::json>(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!choices) return {};
  try {
    std::map<std::string, std::string> engines;
    for (const auto& [call, engine] : JsonInput(*choices).object().items())
      engines.emplace(call, JsonInput(engine, call).text());
    return engines;
  } catch (const JsonMistake&) {
    return {};
  }
}

}  // namespace

std::string text_key(const ConvolutionCall& call) {
  const auto& [x, y] = std::pair(call.x, call.y);
  return fmt::format(
      "{} {} x {},{},{},{} y {},{},{},{} kernel {},{} stride {},{} padding {},{} dilation {},{} groups {}"
      "{}{}{}{} within {}",
      name_of(call.direction), trainer::name_of(call.type), x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3],
      call.kernel[0], call.kernel[1], call.stride[0], call.stride[1], call.padding[0], call.padding[1],
      call.dilation[0], call.dilation[1], call.groups, call.bias ? " bias" : "", call.relu ? " relu" : "",
      call.statistics ? " statistics" : "", call.tf32 ? " tf32" : "", call.workspace_limit);
}

std::string engine_choices_path(const std::string& what, const std::string& device_name, std::int64_t version) {
  fs::path folder = read_variable("XDG_CACHE_HOME");
  if (folder.empty()) {
    const std::string home = read_variable("HOME");
    if (home.empty())
      throw DataError(
          "there is no place for what device.autotune times: set HOME or XDG_CACHE_HOME, or use "
          "device.autotune=false");
    folder = fs::path(home) / ".cache";
  }
  std::string name = device_name;
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '-';
  return folder / "trainer" / fmt::format("{}-{}-{}.json", what, name, version);
}

namespace {

/// What `read` makes of the object that they are. Throws DeviceError where they are none, or `read` JsonMistake.
template <typename Read>
auto read_properties(const std::string& properties_json, Read read) {
  const auto properties = parse_json<nlohmann::json>(properties_json);
  if (!properties) throw DeviceError("the properties of a device for cuDNN are no JSON object");
  try {
    return read(JsonInput(*properties));
  } catch (const JsonMistake& mistake) {
    throw DeviceError(fmt::format("the properties of a device for cuDNN: {}", mistake.what()));
  }
}

}  // namespace

std::string device_name_in(const std::string& properties_json) {
  return read_properties(properties_json, [](const auto& properties) {
    const auto name = properties.find("deviceName");
    return name ? name->text() : std::string();
  });
}

int compute_capability_in(const std::string& properties_json) {
  return read_properties(properties_json, [](const auto& properties) {
    return static_cast<int>(properties.at("deviceVer").integer() / 10);
  });
}

EngineChoices::EngineChoices(std::string path) : path_(std::move(path)), engines_(read_choices(path_)) {}

std::optional<std::string> EngineChoices::find(const std::string& key) const {
  const auto found = engines_.find(key);
  return found == engines_.end() ? std::nullopt : std::optional(found->second);
}

void EngineChoices::store(const std::string& key, const std::string& engine) {
  engines_[key] = engine;
  try {
    write_file();
  } catch (const DataError& error) {
    if (note_.empty())
      note_ = fmt::format("what device.autotune timed is used by this process and not stored for the next: {}",
                          error.what());
  }
}

/// Throws DataError.
void EngineChoices::write_file() {
  // Ours win: they are what this process goes on to use.
  engines_.merge(read_choices(path_));
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const std::string unfinished = fmt::format("{}.{}", path_, getpid());
  {
    std::ofstream file(unfinished);
    file << nlohmann::json(engines_).dump(1) << '\n';
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(unfinished, path_, error);
  if (error) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    throw DataError(fmt::format("cannot write {}: {}; let XDG_CACHE_HOME name a folder that can be written", path_,
                                error.message()));
  }
}

}  // namespace trainer::cuda
