#include "tests/cuda/host_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/errors.h"
#include "engine/half.h"

namespace trainer::cuda {

namespace {

std::int64_t host_scratch(const AttentionCall& call) {
  if (call.direction == AttentionDirection::forward) return 256;
  return 4 * call.samples * call.heads * call.queries * (call.width + 1) + 131;
}

double read_number(const void* data, std::int64_t index, DType type) {
  float number = 0;
  widen(type, static_cast<const std::byte*>(data) + 2 * index, &number, 1);
  return number;
}

void write_number(void* data, std::int64_t index, DType type, double value) {
  const auto number = static_cast<float>(value);
  narrow(type, &number, static_cast<std::byte*>(data) + 2 * index, 1);
}

class HostAttention final : public FusedAttention {
 public:
  explicit HostAttention(const AttentionCall& call) : call_(call) {}

  void run(const FusedAttentionOperands& operands, Stream) override {
    const bool is_backward = call_.direction == AttentionDirection::backward;
    for (const void* operand : {operands.q, operands.k, operands.v, static_cast<const void*>(operands.y),
                                static_cast<const void*>(operands.lse), static_cast<const void*>(operands.workspace)})
      require_internal(operand != nullptr, "attention has its operands");
    for (const void* operand : {operands.dy, static_cast<const void*>(operands.dq),
                                static_cast<const void*>(operands.dk), static_cast<const void*>(operands.dv)})
      require_internal((operand != nullptr) == is_backward, "attention's backward pass alone has gradients");
    std::memset(operands.workspace, 0x5A, static_cast<std::size_t>(host_scratch(call_)));
    if (is_backward) {
      run_backward(operands);
    } else {
      run_forward(operands);
    }
  }

 private:
  std::int64_t of_query(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t features) const {
    return (sample * call_.queries + query) * features + head * call_.width;
  }
  std::int64_t of_key(std::int64_t sample, std::int64_t head, std::int64_t key) const {
    const std::int64_t shared = head / (call_.heads / call_.kv_heads);
    return (sample * call_.keys + key) * call_.key_features + shared * call_.width;
  }
  double dot(const void* a, std::int64_t at_a, const void* b, std::int64_t at_b) const {
    double sum = 0;
    for (std::int64_t i = 0; i < call_.width; ++i)
      sum += read_number(a, at_a + i, call_.type) * read_number(b, at_b + i, call_.type);
    return sum;
  }
  double score(const FusedAttentionOperands& o, std::int64_t sample, std::int64_t head, std::int64_t query,
               std::int64_t key) const {
    return dot(o.q, of_query(sample, head, query, call_.query_features), o.k, of_key(sample, head, key)) /
           std::sqrt(static_cast<double>(call_.width));
  }
  std::int64_t end_of_keys(std::int64_t query) const { return call_.causal ? query + 1 : call_.keys; }

  /// Calls visit(sample, head, query).
  template <typename Visit>
  void for_each_query(Visit&& visit) const {
    for (std::int64_t sample = 0; sample < call_.samples; ++sample)
      for (std::int64_t head = 0; head < call_.heads; ++head)
        for (std::int64_t query = 0; query < call_.queries; ++query) visit(sample, head, query);
  }

  void run_forward(const FusedAttentionOperands& o) const {
    for_each_query([&](std::int64_t sample, std::int64_t head, std::int64_t query) {
      std::vector<double> y(static_cast<std::size_t>(call_.width), 0.0);
      double sum = 0;
      for (std::int64_t key = 0; key < end_of_keys(query); ++key) {
        const double weight = std::exp(score(o, sample, head, query, key));
        sum += weight;
        for (std::int64_t i = 0; i < call_.width; ++i)
          y[static_cast<std::size_t>(i)] += weight * read_number(o.v, of_key(sample, head, key) + i, call_.type);
      }
      for (std::int64_t i = 0; i < call_.width; ++i)
        write_number(o.y, of_query(sample, head, query, call_.heads * call_.width) + i, call_.type,
                     y[static_cast<std::size_t>(i)] / sum);
      o.lse[(sample * call_.heads + head) * call_.queries + query] = static_cast<float>(std::log(sum));
    });
  }

  void run_backward(const FusedAttentionOperands& o) const {
    const std::int64_t num_keys = call_.samples * call_.keys * call_.key_features;
    std::vector<double> dk(static_cast<std::size_t>(num_keys), 0.0), dv = dk;
    const double scale = 1 / std::sqrt(static_cast<double>(call_.width));
    for_each_query([&](std::int64_t sample, std::int64_t head, std::int64_t query) {
      const std::int64_t at_y = of_query(sample, head, query, call_.heads * call_.width);
      const std::int64_t at_q = of_query(sample, head, query, call_.query_features);
      const double d = dot(o.dy, at_y, o.y, at_y);
      const double lse = o.lse[(sample * call_.heads + head) * call_.queries + query];
      std::vector<double> dq(static_cast<std::size_t>(call_.width), 0.0);
      for (std::int64_t key = 0; key < end_of_keys(query); ++key) {
        const std::int64_t at_k = of_key(sample, head, key);
        const double weight = std::exp(score(o, sample, head, query, key) - lse);
        const double of_score = weight * (dot(o.dy, at_y, o.v, at_k) - d) * scale;
        for (std::int64_t i = 0; i < call_.width; ++i) {
          const auto at = static_cast<std::size_t>(at_k + i);
          dq[static_cast<std::size_t>(i)] += of_score * read_number(o.k, at_k + i, call_.type);
          dk[at] += of_score * read_number(o.q, at_q + i, call_.type);
          dv[at] += weight * read_number(o.dy, at_y + i, call_.type);
        }
      }
      for (std::int64_t i = 0; i < call_.width; ++i)
        write_number(o.dq, at_q + i, call_.type, dq[static_cast<std::size_t>(i)]);
    });
    for (std::int64_t sample = 0; sample < call_.samples; ++sample)
      for (std::int64_t key = 0; key < call_.keys; ++key)
        for (std::int64_t i = 0; i < call_.kv_heads * call_.width; ++i) {
          const std::int64_t at = (sample * call_.keys + key) * call_.key_features + i;
          write_number(o.dk, at, call_.type, dk[static_cast<std::size_t>(at)]);
          write_number(o.dv, at, call_.type, dv[static_cast<std::size_t>(at)]);
        }
  }

  AttentionCall call_;
};

}  // namespace

std::shared_ptr<FusedAttention> make_host_attention(const AttentionCall& call) {
  return std::make_shared<HostAttention>(call);
}

std::optional<std::int64_t> HostAttentionPlanner::workspace_bytes(const AttentionCall& call) {
  const std::int64_t bytes = host_scratch(call);
  return bytes <= call.workspace_limit ? std::optional(bytes) : std::nullopt;
}

}  // namespace trainer::cuda
