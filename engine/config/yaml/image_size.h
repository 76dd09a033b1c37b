#pragma once

#include "engine/config/yaml/references.h"

namespace trainer {

/// Gives what `data.size` says to transforms that need a size and have none, and takes the key out; where no transforms
/// are listed, images are resized to it. References name it all the same. Reports where nothing takes it.
void give_image_size(Node& root, ReferenceResolver& resolver, SourceSet& sources);

}  // namespace trainer
