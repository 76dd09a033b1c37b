#pragma once

#include "engine/config/experiment.h"
#include "engine/config/fields/rule.h"

namespace trainer {

/// Words of enums that are told outside the configuration too.
const EnumRule<AllocatorKind>& allocator_choices();
const EnumRule<LossType>& loss_choices();
const EnumRule<Metric>& metric_choices();
const EnumRule<Shard>& shard_choices();
const EnumRule<PipelineOrder>& pipeline_order_choices();

}  // namespace trainer
