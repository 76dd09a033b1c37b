#pragma once

#include <variant>

#include "engine/errors.h"
#include "engine/ops/activation.h"
#include "engine/ops/adaptive_avgpool2d.h"
#include "engine/ops/add.h"
#include "engine/ops/all_reduce.h"
#include "engine/ops/attention.h"
#include "engine/ops/average_weights.h"
#include "engine/ops/avgpool2d.h"
#include "engine/ops/batchnorm2d.h"
#include "engine/ops/batchnorm2d_over_ranks.h"
#include "engine/ops/bce_with_logits.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cached_attention.h"
#include "engine/ops/cast.h"
#include "engine/ops/class_parts.h"
#include "engine/ops/concat.h"
#include "engine/ops/confusion_matrix.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/conv_transpose2d.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dice.h"
#include "engine/ops/document_spans.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/error_statistics.h"
#include "engine/ops/fill_zero.h"
#include "engine/ops/finish_exchange.h"
#include "engine/ops/flatten.h"
#include "engine/ops/global_avgpool.h"
#include "engine/ops/glu.h"
#include "engine/ops/gradient_factor.h"
#include "engine/ops/groupnorm.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/linear.h"
#include "engine/ops/linear_cross_entropy.h"
#include "engine/ops/loss_scale.h"
#include "engine/ops/loss_statistics.h"
#include "engine/ops/maxpool2d.h"
#include "engine/ops/mse.h"
#include "engine/ops/multiply.h"
#include "engine/ops/normalize_pixels.h"
#include "engine/ops/offload.h"
#include "engine/ops/optimizer_update.h"
#include "engine/ops/pad.h"
#include "engine/ops/part_statistics.h"
#include "engine/ops/placed.h"
#include "engine/ops/position_embedding.h"
#include "engine/ops/prelu.h"
#include "engine/ops/rank_parts.h"
#include "engine/ops/repeat_row.h"
#include "engine/ops/send_receive.h"
#include "engine/ops/smooth_l1.h"
#include "engine/ops/upsample.h"

/// The one list of ops: its name and the type of its attributes. A device must define a kernel for each line or
/// does not link; engine/ops/<file>.cpp defines each op's OpDefinition; tests/op_cases has cases for each line and
/// tests/cpu and tests/cuda walk them.
#define TRAINER_OPS(X)                                                \
  X(normalize_pixels, NormalizePixelsAttributes)                      \
  X(cast, std::monostate)                                             \
  X(linear, LinearAttributes)                                         \
  X(linear_backward_input, LinearAttributes)                          \
  X(linear_backward_weight, LinearAttributes)                         \
  X(conv_transpose2d, Conv2dAttributes)                               \
  X(conv_transpose2d_backward_weight, Conv2dAttributes)               \
  X(conv2d, Conv2dAttributes)                                         \
  X(conv2d_backward_input, Conv2dAttributes)                          \
  X(conv2d_backward_weight, Conv2dAttributes)                         \
  X(batchnorm2d, BatchNorm2dAttributes)                               \
  X(batchnorm2d_normalize, BatchNorm2dAttributes)                     \
  X(batchnorm2d_inference, BatchNorm2dAttributes)                     \
  X(batchnorm2d_inference_backward, BatchNorm2dAttributes)            \
  X(batchnorm2d_backward, BatchNorm2dAttributes)                      \
  X(batchnorm2d_sums, BatchNorm2dAttributes)                          \
  X(batchnorm2d_statistics, BatchNorm2dAttributes)                    \
  X(batchnorm2d_gradient_sums, BatchNorm2dAttributes)                 \
  X(batchnorm2d_normalize_backward, BatchNorm2dAttributes)            \
  X(layernorm, LayerNormAttributes)                                   \
  X(layernorm_backward, LayerNormAttributes)                          \
  X(groupnorm, GroupNormAttributes)                                   \
  X(groupnorm_normalize, GroupNormAttributes)                         \
  X(groupnorm_backward, GroupNormAttributes)                          \
  X(attention, AttentionAttributes)                                   \
  X(attention_backward, AttentionAttributes)                          \
  X(cached_attention, AttentionAttributes)                            \
  X(activation, ActivationAttributes)                                 \
  X(activation_backward, ActivationAttributes)                        \
  X(glu, GluAttributes)                                               \
  X(glu_backward, GluAttributes)                                      \
  X(prelu, std::monostate)                                            \
  X(prelu_backward, std::monostate)                                   \
  X(maxpool2d, Pool2dAttributes)                                      \
  X(maxpool2d_backward, Pool2dAttributes)                             \
  X(avgpool2d, Pool2dAttributes)                                      \
  X(avgpool2d_backward, Pool2dAttributes)                             \
  X(adaptive_avgpool2d, std::monostate)                               \
  X(adaptive_avgpool2d_backward, std::monostate)                      \
  X(upsample, UpsampleAttributes)                                     \
  X(upsample_backward, UpsampleAttributes)                            \
  X(pad, PadAttributes)                                               \
  X(pad_backward, PadAttributes)                                      \
  X(global_avgpool, std::monostate)                                   \
  X(global_avgpool_backward, std::monostate)                          \
  X(flatten, std::monostate)                                          \
  X(flatten_backward, std::monostate)                                 \
  X(dropout, DropoutAttributes)                                       \
  X(dropout_backward, DropoutAttributes)                              \
  X(document_spans, DocumentSpansAttributes)                          \
  X(embedding, EmbeddingAttributes)                                   \
  X(embedding_backward, EmbeddingAttributes)                          \
  X(position_embedding, std::monostate)                               \
  X(position_embedding_backward, std::monostate)                      \
  X(add, AddAttributes)                                               \
  X(multiply, std::monostate)                                         \
  X(multiply_backward_gate, std::monostate)                           \
  X(concat, std::monostate)                                           \
  X(channel_slice, ChannelSliceAttributes)                            \
  X(channel_slice_backward, ChannelSliceAttributes)                   \
  X(place_channels, std::monostate)                                   \
  X(repeat_row, std::monostate)                                       \
  X(sum_rows, std::monostate)                                         \
  X(start_loss_statistics, LossStatisticsAttributes)                  \
  X(keep_part_statistics, PartStatisticsAttributes)                   \
  X(sum_part_statistics, PartStatisticsAttributes)                    \
  X(cross_entropy, CrossEntropyAttributes)                            \
  X(cross_entropy_backward, CrossEntropyAttributes)                   \
  X(cross_entropy_with_gradient, CrossEntropyAttributes)              \
  X(class_statistics, ClassPartAttributes)                            \
  X(class_order, ClassPartAttributes)                                 \
  X(cross_entropy_of_parts, ClassPartAttributes)                      \
  X(cross_entropy_of_parts_backward, ClassPartAttributes)             \
  X(linear_cross_entropy, LinearCrossEntropyAttributes)               \
  X(linear_cross_entropy_with_gradient, LinearCrossEntropyAttributes) \
  X(mse, LossTerm)                                                    \
  X(mse_backward, LossTerm)                                           \
  X(bce_with_logits, LossTerm)                                        \
  X(bce_with_logits_backward, LossTerm)                               \
  X(smooth_l1, SmoothL1Attributes)                                    \
  X(smooth_l1_backward, SmoothL1Attributes)                           \
  X(dice_sums, DiceAttributes)                                        \
  X(dice, DiceAttributes)                                             \
  X(dice_backward, DiceAttributes)                                    \
  X(confusion_matrix, ConfusionMatrixAttributes)                      \
  X(error_statistics, std::monostate)                                 \
  X(scale_gradient, std::monostate)                                   \
  X(gradient_squares, GradientSquaresAttributes)                      \
  X(gradient_factor, GradientFactorAttributes)                        \
  X(sgd_update, SgdUpdateAttributes)                                  \
  X(adam_update, AdamUpdateAttributes)                                \
  X(update_loss_scale, LossScaleAttributes)                           \
  X(average_weights, std::monostate)                                  \
  X(fill_zero, std::monostate)                                        \
  X(all_reduce, AllReduceAttributes)                                  \
  X(reduce_scatter, RankPartsAttributes)                              \
  X(all_gather, RankPartsAttributes)                                  \
  X(broadcast, BroadcastAttributes)                                   \
  X(send, PeerAttributes)                                             \
  X(receive, PeerAttributes)                                          \
  X(finish_exchange, std::monostate)                                  \
  X(offload, OffloadAttributes)                                       \
  X(fetch, OffloadAttributes)

namespace trainer {

using OpAttributes =
    std::variant<std::monostate, NormalizePixelsAttributes, LinearAttributes, Conv2dAttributes, BatchNorm2dAttributes,
                 LayerNormAttributes, GroupNormAttributes, AttentionAttributes, ActivationAttributes, GluAttributes,
                 Pool2dAttributes, UpsampleAttributes, PadAttributes, DropoutAttributes, DocumentSpansAttributes,
                 EmbeddingAttributes, AddAttributes, ChannelSliceAttributes, LossStatisticsAttributes,
                 PartStatisticsAttributes, LossTerm, CrossEntropyAttributes, LinearCrossEntropyAttributes,
                 SmoothL1Attributes, DiceAttributes, ConfusionMatrixAttributes, GradientSquaresAttributes,
                 GradientFactorAttributes, SgdUpdateAttributes, AdamUpdateAttributes, LossScaleAttributes,
                 OffloadAttributes, ClassPartAttributes, AllReduceAttributes, RankPartsAttributes, BroadcastAttributes,
                 PeerAttributes>;

}  // namespace trainer
