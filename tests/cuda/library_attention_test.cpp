// Attention that the library serves: Note [Attention by cuDNN] in cuda/library/attention.h.

#include <algorithm>
#include <catch2/catch.hpp>

#include "cuda/ops/attention_call.h"
#include "engine/cpu/cpu_device.h"
#include "engine/ops/attention.h"
#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/half_cases.h"

namespace trainer::cuda {

namespace {

constexpr std::int64_t wide_limit = std::int64_t{1} << 30;

bool is_attention(OpKind kind) { return kind == OpKind::attention || kind == OpKind::attention_backward; }

OpCase with_limit(OpCase op_case, std::int64_t limit) {
  std::get<AttentionAttributes>(op_case.op.attributes).workspace_limit = limit;
  return op_case;
}

/// Attention in `type` that has a reference in double, which may take scratch.
std::vector<NamedCases> small_cases(DType type) {
  std::vector<NamedCases> found;
  for (const NamedCases& named : with_rounded_weights(half_cases(type), type)) {
    NamedCases cases{named.op, {}};
    for (const OpCase& c : named.cases)
      if (is_attention(c.op.kind)) cases.cases.push_back(with_limit(c, wide_limit));
    if (!cases.cases.empty()) found.push_back(std::move(cases));
  }
  REQUIRE(found.size() == 2);
  return found;
}

/// How many of them, forward or backward, the library can serve.
std::ptrdiff_t count_served(const std::vector<OpCase>& cases, OpKind kind) {
  return std::count_if(cases.begin(), cases.end(),
                       [&](const OpCase& c) { return c.op.kind == kind && attention_call(c.op, false); });
}

/// Packed attention in f16 of 2 samples, 24 positions, 4 heads of 16.
Op usual_attention(AttentionAttributes more = {}, DType type = DType::f16, std::int64_t width = 16) {
  more.heads = 4;
  if (more.kv_heads == 1) more.kv_heads = 4;
  more.workspace_limit = wide_limit;
  const std::int64_t features = (more.heads + 2 * more.kv_heads) * width;
  return attention_op(TensorType{type, {2, 24, features}}, more);
}

}  // namespace

TEST_CASE("attention by the library's description computes what references and the CPU do") {
  for (const DType type : {DType::f16, DType::bf16}) {
    const std::vector<OpCase> cases = larger_attention_cases(type);
    CHECK(count_served(cases, OpKind::attention) >= 4);
    CHECK(count_served(cases, OpKind::attention_backward) >= 4);
    for (const bool deterministic : {true, false}) {
      const auto device = make_emulated_device(LibraryAttention::built, deterministic);
      check_against_references(*device, small_cases(type));
      check_against_device(*device, *make_cpu_device(2), cases);
    }
  }
}

TEST_CASE("attention that the library plans and cannot build runs in own kernels, in the planned scratch") {
  const auto device = make_emulated_device(LibraryAttention::planned, false);
  check_against_references(*device, small_cases(DType::f16));
  check_against_device(*device, *make_cpu_device(2), larger_attention_cases(DType::f16));
}

TEST_CASE("the library is asked for what it serves: 16 bits, no window, rotation, dropout or documents") {
  const auto is_asked = [](const Op& op, bool deterministic = false) {
    return attention_call(op, deterministic).has_value();
  };
  CHECK(is_asked(usual_attention()));
  CHECK(is_asked(usual_attention({.causal = true})));
  CHECK(is_asked(usual_attention({.kv_heads = 2})));
  CHECK(is_asked(usual_attention({}, DType::bf16, 128)));
  CHECK_FALSE(is_asked(usual_attention({}, DType::f32)));
  CHECK_FALSE(is_asked(usual_attention({}, DType::f16, 12)));
  CHECK_FALSE(is_asked(usual_attention({}, DType::f16, 136)));
  CHECK_FALSE(is_asked(usual_attention({.causal = true, .window = 8})));
  // A window of all keys hides none.
  CHECK(is_asked(usual_attention({.causal = true, .window = 24})));
  CHECK_FALSE(is_asked(usual_attention({.rotary_base = 10000})));
  CHECK_FALSE(is_asked(usual_attention({.p = 0.1})));
  CHECK_FALSE(
      is_asked(attention_within_spans_op(usual_attention({.causal = true}), TensorType{DType::i32, {2, 24, 2}})));
  // The forward pass always gives the same bits; cuDNN's backward pass does not.
  CHECK(is_asked(usual_attention(), true));
  CHECK(is_asked(attention_backward_op(usual_attention())));
  CHECK_FALSE(is_asked(attention_backward_op(usual_attention()), true));
}

TEST_CASE("what the library is asked tells heads, features and the limit") {
  AttentionAttributes attributes{.heads = 6, .kv_heads = 2, .causal = true, .workspace_limit = 5000};
  const AttentionCall packed = *attention_call(attention_op(TensorType{DType::bf16, {3, 10, 80}}, attributes), true);
  CHECK(packed == AttentionCall{.direction = AttentionDirection::forward,
                                .type = DType::bf16,
                                .samples = 3,
                                .queries = 10,
                                .keys = 10,
                                .heads = 6,
                                .kv_heads = 2,
                                .width = 8,
                                .query_features = 80,
                                .key_features = 80,
                                .causal = true,
                                .workspace_limit = most_forward_scratch});
  attributes.causal = false;
  const Op apart = attention_op(TensorType{DType::f16, {3, 10, 48}}, TensorType{DType::f16, {3, 7, 16}},
                                TensorType{DType::f16, {3, 7, 16}}, attributes);
  const AttentionCall backward = *attention_call(attention_backward_op(apart), false);
  CHECK(backward == AttentionCall{.direction = AttentionDirection::backward,
                                  .type = DType::f16,
                                  .samples = 3,
                                  .queries = 10,
                                  .keys = 7,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .width = 8,
                                  .query_features = 48,
                                  .key_features = 16,
                                  .workspace_limit = 5000});
}

TEST_CASE("scratch of attention is the library's within the limit, and the own kernels' beyond it") {
  const auto scratch = [](const Op& op, bool deterministic) {
    return make_emulated_device(LibraryAttention::built, deterministic)->workspace_bytes(op);
  };
  const Op forward = usual_attention(), backward = attention_backward_op(forward);
  CHECK(scratch(forward, true) == 256);
  // Σ dy · y of each query; the library's sums beside it.
  const std::int64_t own = 4 * 2 * 4 * 24;
  CHECK(scratch(backward, true) == own);
  CHECK(scratch(backward, false) == own * 17 + 131);
  Op limited = backward;
  std::get<AttentionAttributes>(limited.attributes).workspace_limit = own * 17 + 130;
  CHECK(scratch(limited, false) == own);
  std::get<AttentionAttributes>(limited.attributes).workspace_limit = 0;
  CHECK(scratch(limited, false) == own);
  CHECK(make_emulated_device()->workspace_bytes(forward) == 0);
  CHECK(make_emulated_device()->workspace_bytes(backward) == own);
}

}  // namespace trainer::cuda
