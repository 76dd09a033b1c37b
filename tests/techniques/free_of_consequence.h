#pragma once

#include <string>
#include <vector>

namespace trainer {

using Settings = std::vector<std::string>;  ///< overrides

/// Ways to hold less memory that change no bit of the result, whatever the run.
inline const std::vector<Settings> free_of_consequence = {
    {"train.checkpointing={every: 1}"},
    {"train.checkpointing={every: 3}"},
    {"train.checkpointing={layers: ['*']}"},
    {"train.checkpointing={layers: [linear]}"},
    {"train.checkpointing=sqrt"},
    {"train.checkpointing=sqrt", "memory.recompute_cheap=false"},
    {"train.checkpointing=auto", "memory.limit=1GiB"},
    {"memory.recompute_cheap=false"},
    {"memory.in_place=false"},
    {"memory.allocator=planned"},
    {"memory.allocator=planned", "train.checkpointing=sqrt", "memory.in_place=false"},
};

}  // namespace trainer
