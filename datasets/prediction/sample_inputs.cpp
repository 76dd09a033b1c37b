#include "datasets/prediction/sample_inputs.h"

#include <fmt/format.h>

#include <utility>

#include "datasets/prediction/sample_file.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Pixels of arrays, or whole image files.
class PixelReader final : public InputReader {
 public:
  explicit PixelReader(const PreparedImage& prepared) : preparer_(prepared) {}

  void read(const PredictionInput& input, std::byte* sample) override {
    if (input.channels > 0)
      preparer_.prepare_pixels(input.bytes, input.size, input.channels, input.name, input.number, sample);
    else
      preparer_.prepare_file(input.name, input.number, sample);
  }

 private:
  ImagePreparer preparer_;
};

class SampleInputs final : public InputStream {
 public:
  SampleInputs(InputPaths paths, const DataConfig& config, const TensorType& sample,
               std::optional<PreparedImage> prepared)
      : paths_(std::move(paths)), config_(config), sample_(sample), prepared_(std::move(prepared)) {
    if (paths_.has_lines()) return;
    count_ = 0;
    paths_.for_each([&](const std::string& path) { *count_ += is_array(path) ? size_of_file(path) : 1; });
  }

  bool next(PredictionInput& input) override {
    while (true) {
      if (!file_) {
        if (!paths_.next(path_, below_)) return false;
        input.below = below_;
        input.name = path_;
        if (!is_array(path_)) return true;
        if (!open(input)) return true;
      }
      input.below = below_;
      try {
        if (file_->next(input)) return true;
        file_.reset();
      } catch (const DataError& error) {
        file_.reset();
        input.error = error.what();
        return true;
      }
    }
  }

  std::unique_ptr<InputReader> make_reader() const override {
    return prepared_ ? std::make_unique<PixelReader>(*prepared_) : InputStream::make_reader();
  }
  std::optional<std::int64_t> count() const override { return count_; }
  std::vector<std::string> remarks() const override { return paths_.remarks(); }

 private:
  /// A model of numbers takes arrays alone, whatever they are called.
  bool is_array(const std::string& path) const { return !prepared_ || is_called_array(path); }
  std::unique_ptr<SampleFile> file_at(const std::string& path) const {
    return open_sample_file(path, config_, sample_, prepared_ ? prepared_->channels : 0);
  }

  bool open(PredictionInput& input) {
    try {
      file_ = file_at(path_);
    } catch (const DataError& error) {
      input.error = error.what();
    } catch (const ConfigError& error) {
      input.error = error.what();
    }
    return file_ != nullptr;
  }

  /// One that cannot be read is an input, too.
  std::int64_t size_of_file(const std::string& path) const {
    try {
      return file_at(path)->size();
    } catch (const DataError&) {
      return 1;
    } catch (const ConfigError&) {
      return 1;
    }
  }

  InputPaths paths_;
  const DataConfig config_;
  const TensorType sample_;
  const std::optional<PreparedImage> prepared_;
  std::optional<std::int64_t> count_;
  std::string path_, below_;
  std::unique_ptr<SampleFile> file_;
};

}  // namespace

bool is_called_array(std::string_view path) {
  for (const std::string_view ending : {".npy", ".npz", ".safetensors"})
    if (path.ends_with(ending)) return true;
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with("idx3-ubyte") || path.ends_with("idx4-ubyte");
}

std::unique_ptr<InputStream> sample_inputs(InputPaths paths, const DataConfig& config, const TensorType& sample,
                                           std::optional<PreparedImage> prepared) {
  return std::make_unique<SampleInputs>(std::move(paths), config, sample, std::move(prepared));
}

}  // namespace trainer
