#include "cuda/ops/step_places.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "engine/errors.h"

namespace trainer::cuda {

namespace {

constexpr std::int64_t alignment = 64;

constexpr std::int64_t aligned(std::int64_t num_bytes) { return (num_bytes + alignment - 1) / alignment * alignment; }

}  // namespace

StepPlaces::StepPlaces(const StepFeedShape& shape,
                       const std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)>& make_memory,
                       FedStepState state, Queue queue)
    : state_(state), queue_(std::move(queue)) {
  require_internal(shape.num_places > 0, "a feed has places");
  places_.count = shape.num_places;
  places_.input_offset = aligned(sizeof(StepScalars));
  places_.result_offset = places_.input_offset + aligned(shape.input_bytes);
  places_.stride = places_.result_offset + aligned(shape.result_bytes);
  memory_ = make_memory(places_.count * places_.stride);
  places_.first = memory_->data();
  for (int place = 0; place < shape.num_places; ++place) new (at(place)) StepScalars{};
}

void StepPlaces::begin_step(std::span<const FedInput> inputs) {
  // A kernel takes two.
  for (std::size_t first = 0; first == 0 || first < inputs.size(); first += 2) {
    std::array<FedInput, 2> parts{};
    std::copy_n(inputs.begin() + static_cast<std::ptrdiff_t>(first), std::min<std::size_t>(2, inputs.size() - first),
                parts.begin());
    queue_([places = places_, state = state_, parts](Stream stream) {
      begin_fed_step(places, state.num_steps, state.scalars, parts[0], parts[1], stream);
    });
  }
}

void StepPlaces::end_step(std::span<const FedResult> results) {
  require_internal(results.size() <= 2, "a fed step ends with at most two copies");
  std::array<FedResult, 2> parts{};
  std::copy(results.begin(), results.end(), parts.begin());
  queue_([places = places_, state = state_, parts](Stream stream) {
    end_fed_step(places, state.num_steps, parts[0], parts[1], stream);
  });
}

}  // namespace trainer::cuda
