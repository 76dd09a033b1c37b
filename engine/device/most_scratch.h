#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// A device whose ops have room for any scratch that they may need there (DeviceModel::most_workspace_bytes), but for
/// `exact` ones, which have what they need. Where the device knows no bound that is the same.
class MostScratch final : public DeviceModel {
 public:
  /// The device must outlive it.
  explicit MostScratch(const DeviceModel& device, std::unordered_set<Op, OpHash> exact = {})
      : device_(device), exact_(std::move(exact)) {}

  std::string kind() const override { return device_.kind(); }
  std::string name() const override { return device_.name(); }
  std::int64_t workspace_bytes(const Op& op) const override {
    const std::int64_t most = exact_.contains(op) ? unknown_workspace_bytes : device_.most_workspace_bytes(op);
    return most == unknown_workspace_bytes ? device_.workspace_bytes(op) : most;
  }
  std::int64_t most_workspace_bytes(const Op& op) const override { return device_.most_workspace_bytes(op); }
  std::string workspace_bound() const override { return device_.workspace_bound(); }
  bool copies_ahead() const override { return device_.copies_ahead(); }
  bool copies_at_once() const override { return device_.copies_at_once(); }
  std::int64_t library_bytes(const Op& op) const override { return device_.library_bytes(op); }
  LinearFusions linear_fusions() const override { return device_.linear_fusions(); }
  bool convolution_statistics(const Op& conv2d) const override { return device_.convolution_statistics(conv2d); }
  std::vector<NamedBytes> outside_allocator() const override { return device_.outside_allocator(); }

 private:
  const DeviceModel& device_;
  const std::unordered_set<Op, OpHash> exact_;
};

}  // namespace trainer
