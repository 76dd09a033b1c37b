#pragma once

#include <cstdint>

namespace trainer {

struct TensorType;

// Note [Mixed batches]
// ~~~~~~~~~~~~~~~~~~~~
// mixup and cutmix make a training sample of two of its batch, as torchvision's MixUp and CutMix do: of itself and of
// the one before it, the first of itself and the last. Nothing is mixed in host memory but numbers to predict. Beside
// its samples a batch has a field that says, for each of them, of what it is made; what is a MixedSample:
// - normalize_pixels reads both images as bytes and writes one, so mixing takes no memory and no pass of its own;
// - cross_entropy takes the classes of both and their shares: the loss of PyTorch for the soft target
//   share · one_hot(own class) + (1 − share) · one_hot(the other's class), whose mean, with class weights too, is over
//   the samples. The class of the greater share is the one that counts as correct, the own one of equal shares.
// What is drawn is a function of (seed, epoch, number of the batch in its epoch): datasets/batch_mixing.h.

/// Of what a sample of a batch is made. A box is where its pixels are the partner's: rows top … bottom − 1, columns
/// left … right − 1, within the image; elsewhere a pixel is blend · own + (1 − blend) · the partner's.
struct MixedSample {
  std::int32_t partner = 0;        ///< its position in the batch
  std::int32_t partner_class = 0;  ///< of categorical data
  float share = 1;                 ///< of the own target, in [0, 1]
  float blend = 1;                 ///< of the own pixels, in [0, 1]
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;

  friend bool operator==(const MixedSample&, const MixedSample&) = default;
};

/// Of a batch's field: the bytes of a MixedSample for each of its samples.
TensorType mixed_samples_type(std::int64_t batch_size);

}  // namespace trainer
