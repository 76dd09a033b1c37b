#pragma once

#include <string>

#include "engine/device/communicator.h"
#include "engine/train/executor.h"
#include "engine/train/files/checkpoint.h"

namespace trainer {

// Note [Sharded checkpoints]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// With checkpoint.sharded the ranks write a checkpoint together, in place of
//
//   model.safetensors      model-00001-of-00004.safetensors … and model.safetensors.index.json
//   optimizer.safetensors  optimizer-00001-of-00004.safetensors … and optimizer.safetensors.index.json
//
// Each tensor lies whole in one file, which the rank of its number writes (share_out in tensor_shards.h), so that the
// files are Hugging Face's shards and a checkpoint says nothing of how many ranks read it. What is one tensor, or none,
// is one file as ever. state.json has the sizes and checksums of all these files, and format version 2.
//
// Rank 0 makes the folder, under a name that begins with a dot. All write and flush their files, and agree: where one
// could not, all fail alike, and the folder goes. Then rank 0 writes the indexes and state.json, renames the folder,
// and says so. Nothing else waits: where every rank holds the model whole, nothing is sent.
//
// Of what ranks hold parts of, each round brings every writer the next piece of its file, one after the other, and all
// write theirs at once. So a rank holds two pieces: the one that it writes and what it gives of the others'.
//
// A run that ends because it failed cannot ask the others: rank 0 saves alone, in one file each, where it holds all.

/// Of a rank, for pieces on their way: each has room for the largest (Note [Pieces] in engine/graph/tensor_pieces.h).
struct ShardMemory {
  PieceMemory& own;
  PieceMemory* given = nullptr;  ///< null where no rank holds parts
};

/// save_checkpoint by all ranks together, each of which calls it alike, and gets the same result or DataError; see Note
/// [Sharded checkpoints].
SavedCheckpoint save_sharded_checkpoint(const std::string& directory, const TrainingState& state,
                                        const Experiment& experiment, const std::string& trainer_version,
                                        Executor& executor, Communicator& ranks, const ShardMemory& memory);

}  // namespace trainer
