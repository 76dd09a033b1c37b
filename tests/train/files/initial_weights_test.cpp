#include "engine/train/files/initial_weights.h"

#include "engine/train/files/durable_file.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

void write_model(const std::string& checkpoint) {
  make_directories_durably(checkpoint);
  write_bytes(checkpoint + "/model.safetensors", "weights");
}

}  // namespace

TEST_CASE("The weights of a run are those of its best checkpoint, or of the newest where none is best") {
  const OutputFolder folder;
  const std::string run = folder.path("run");
  const std::string early = run + "/checkpoints/step-00000003", late = run + "/checkpoints/step-00000006";
  write_model(early);
  write_model(late);
  CHECK(initial_weights_file(run) == late + "/model.safetensors");
  CHECK(initial_weights_file(early) == early + "/model.safetensors");
  CHECK(initial_weights_file(early + "/") == early + "/model.safetensors");
  point_link(run + "/checkpoints/best", "step-00000003");
  CHECK(initial_weights_file(run + "/") == early + "/model.safetensors");
  CHECK(initial_weights_file(run + "/checkpoints/latest") == run + "/checkpoints/latest");  // no folder: as given
  point_link(run + "/checkpoints/best", "step-00000099");                                   // which is gone
  CHECK(initial_weights_file(run) == late + "/model.safetensors");
}

TEST_CASE("A folder without weights says what was looked for in it") {
  const OutputFolder folder;
  make_directories_durably(folder.path("empty"));
  std::string message;
  try {
    initial_weights_file(folder.path("empty"));
  } catch (const DataError& error) {
    message = error.what();
  }
  CHECK_THAT(message, Contains("empty holds no weights: neither model.safetensors") && Contains("nor checkpoints/"));
}
