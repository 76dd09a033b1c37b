#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// A device that is asked only once for the scratch of each convolution and attention, and for statistics: a library
/// may take milliseconds to tell.
class RememberedWorkspaces final : public DeviceModel {
 public:
  /// The device must outlive it.
  explicit RememberedWorkspaces(const DeviceModel& device) : device_(device) {}

  std::string kind() const override { return device_.kind(); }
  std::string name() const override { return device_.name(); }
  std::int64_t workspace_bytes(const Op& op) const override;
  std::int64_t most_workspace_bytes(const Op& op) const override { return device_.most_workspace_bytes(op); }
  std::string workspace_bound() const override { return device_.workspace_bound(); }
  bool copies_ahead() const override { return device_.copies_ahead(); }
  bool copies_at_once() const override { return device_.copies_at_once(); }
  std::int64_t library_bytes(const Op& op) const override { return device_.library_bytes(op); }
  LinearFusions linear_fusions() const override { return device_.linear_fusions(); }
  bool convolution_statistics(const Op& conv2d) const override;
  std::vector<NamedBytes> outside_allocator() const override { return device_.outside_allocator(); }

  /// Different convolutions that were asked about.
  std::int64_t num_asked() const { return static_cast<std::int64_t>(answers_.size()); }

 private:
  const DeviceModel& device_;
  mutable std::unordered_map<Op, std::int64_t, OpHash> answers_, attention_answers_;
  mutable std::unordered_map<Op, bool, OpHash> statistics_;
};

}  // namespace trainer
