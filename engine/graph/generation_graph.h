#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace trainer {

// Note [Writing texts]
// ~~~~~~~~~~~~~~~~~~~~
// A model of tokens writes a text by predicting one token after the other. Its graph is that of an evaluation over the
// new tokens alone, without a loss, in which attention reads the keys and values of the tokens before from caches: Note
// [Cached attention] in engine/ops/cached_attention.h. That gives what the whole text would where each layer treats
// each token by itself but for attention that sees nothing behind it; a model with another layer is refused. Where the
// tokens stand is an input, so one graph serves a text from its begin to its end.

/// The model over `num_tokens` new tokens of one text. Inputs: the tokens and their positions, i32 (1, num_tokens)
/// each; prediction: (1, num_tokens, vocabulary). No targets, no loss. Throws ConfigError that points at a layer which
/// mixes tokens in another way, or takes no tokens.
Graph build_generation_graph(const Experiment& experiment, std::int64_t num_tokens);

/// Throws ConfigError that points at a layer, where what a model says behind a token of a text depends on what stands
/// behind that token, or is no choice of the next one, of all that the data has: then nothing can be told of the text,
/// since the token to be guessed is seen, and so is what fills a window up. `data`: what the model takes, a window of
/// tokens.
void require_next_token_model(const Experiment& experiment, const DataDescription& data);

/// Replaces attention by attention to caches of `length` tokens, which are Graph::kept together with the prediction,
/// as the last. Runs behind apply_precision(), which the types of caches come from.
void keep_attention(Graph& graph, std::int64_t length);
/// Leaves out what only the prediction needs: of a piece of a prompt nothing is predicted.
void leave_out_prediction(Graph& graph);

/// The longest text that the model has positions for; 0: any.
std::int64_t most_positions(const Graph& graph);

}  // namespace trainer
