#include "datasets/prediction/prediction_input.h"

#include <cstring>

namespace trainer {
namespace {

class ReadySamples final : public InputReader {
 public:
  void read(const PredictionInput& input, std::byte* sample) override {
    std::memcpy(sample, input.bytes.data(), input.bytes.size());
  }
};

}  // namespace

std::unique_ptr<InputReader> InputStream::make_reader() const { return std::make_unique<ReadySamples>(); }

}  // namespace trainer
