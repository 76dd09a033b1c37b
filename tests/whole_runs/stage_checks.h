#pragma once

#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// A ResNet on image files, whose head is trained first, then all of it, then on images twice as large: each step of
/// each stage holds what the plan of the stage says, and behind each stage the device holds nothing. Returns the
/// losses.
std::vector<double> check_stages_of_images(Device& device);

/// The same of a network of images with a loss on features, part of which is frozen at first.
std::vector<double> check_stages_of_features(Device& device);

/// Stages that begin with what the one before has cached, in smaller and larger batches, with segments of fixed sizes,
/// with expandable ones and under a capacity that makes them give the cache back: each step holds what the plan says
/// that begins with the cache of the plan before, and the weights are those of stages that are purged, bit for bit.
void check_stages_in_one_cache(Device& device);

}  // namespace trainer
