#pragma once

/// Every dataset type: X(name) for DataType::name, defined by name_format() in a name.cpp.
#define TRAINER_DATASETS(X) \
  X(digits)                 \
  X(idx)                    \
  X(cifar10)                \
  X(csv)                    \
  X(arrays)                 \
  X(synthetic)              \
  X(image_folder)           \
  X(image_list)             \
  X(segmentation)           \
  X(tar)                    \
  X(tokens)                 \
  X(text)
