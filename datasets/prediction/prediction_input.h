#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "engine/shape.h"

namespace trainer {

// Note [Streams of inputs]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What a model predicts from comes as a stream: how many inputs there are need not be known, and none is held but those
// of the batches that are read ahead. An input has no target. One that cannot be read is no end of the stream: it keeps
// its place, with the reason, so that who reads the outputs finds each input once and in order. Names of files in a
// folder are listed, folder by folder.

/// A stretch of a text, whose tokens are PredictionInput::bytes: Note [Texts to predict from] in text_inputs.h.
struct TextWindow {
  std::int64_t num_tokens = 0;           ///< i32, in front of what fills the window up
  std::optional<std::int32_t> behind{};  ///< the token behind it, where the next input goes on with the text
};

/// An input on its way into a batch.
struct PredictionInput {
  std::string name;         ///< its file; with the line of a table's row, the index in an array: "a.csv:2", "x.npy[3]"
  std::string below;        ///< its path below the folder that was given, or its file's name; of an array with its
                            ///< number behind: "x.npy/3"
  std::string error;        ///< why there is no sample; empty: there is one
  std::int64_t number = 0;  ///< from 0, over all inputs
  /// What the stream has read: a sample as the model takes it, or pixels before transforms, of that size; empty: a
  /// reader opens the file.
  std::vector<std::byte> bytes;
  Pair size{0, 0};
  std::int64_t channels = 0;
  TextWindow window;  ///< of texts

  /// Takes the place of another input, whose memory it keeps.
  void restart(std::int64_t its_number) {
    name.clear();
    below.clear();
    error.clear();
    bytes.clear();
    number = its_number;
    size = {0, 0};
    channels = 0;
    window = {};
  }
};

/// One thread's way from an input to a sample.
class InputReader {
 public:
  virtual ~InputReader() = default;
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;

  /// Writes the sample of an input without an error to where it belongs. Throws DataError or ConfigError where it
  /// cannot be made.
  virtual void read(const PredictionInput& input, std::byte* sample) = 0;

 protected:
  InputReader() = default;
};

/// Inputs one after the other; see Note [Streams of inputs].
class InputStream {
 public:
  virtual ~InputStream() = default;
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// Fills the next input, whose number is set; false where there is none. One thread at a time.
  virtual bool next(PredictionInput& input) = 0;
  /// For one thread; the stream outlives it. By default one that takes the bytes of an input for its sample.
  virtual std::unique_ptr<InputReader> make_reader() const;
  /// How many there are, where that is known before they are read.
  virtual std::optional<std::int64_t> count() const { return std::nullopt; }
  /// Sentences about what was passed over, known at the end.
  virtual std::vector<std::string> remarks() const { return {}; }

 protected:
  InputStream() = default;
};

}  // namespace trainer
