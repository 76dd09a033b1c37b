#pragma once

#include <functional>
#include <string_view>

namespace trainer {

/// Takes the next bytes of what is written, in order.
using ByteSink = std::function<void(std::string_view bytes)>;

}  // namespace trainer
