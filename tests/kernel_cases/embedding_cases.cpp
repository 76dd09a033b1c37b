// Rows of tables: of GPT-2's, small.

#include <fmt/format.h>

#include "cuda/kernels/document_spans.h"
#include "cuda/kernels/embedding.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

constexpr std::int64_t table_rows = 50257, table_columns = 768, sequence_places = 1024;

/// Fewer for the host, which tries one sequence.
std::int64_t num_rows(std::int64_t samples) { return samples > 1 ? table_rows : 257; }

/// A case over batches of sequences; `fill` gives it operands and the launch.
template <typename Fill>
void add_sequence_case(KernelCases& cases, const char* launcher, DType type, std::string variant, std::string kernel,
                       const Fill& fill) {
  cases.push_back({.name = case_name(launcher, type, variant),
                   .kernels = {std::move(kernel)},
                   .units = 16,
                   .least_units = 1,
                   .sized = [=](std::int64_t samples, Library&) {
                     SizedCase sized{.shape = fmt::format("{}x{}x{}", samples, sequence_places, table_columns)};
                     fill(sized, samples, samples * sequence_places);
                     return sized;
                   }});
}

void add_lookups(KernelCases& cases, DType type) {
  const auto bytes = [](DType of, std::int64_t count) { return static_cast<std::int64_t>(size_of(of)) * count; };
  add_sequence_case(cases, "embedding_forward", type, "", "embedding_forward_kernel",
                    [=](SizedCase& sized, std::int64_t samples, std::int64_t places) {
                      const EmbeddingShape shape{places, 0, num_rows(samples), num_rows(samples), table_columns};
                      sized.bytes = bytes(type, places * table_columns) * 2;
                      const auto indices = sized.input(DType::i32, places, 0, static_cast<double>(shape.num));
                      const auto table = sized.input(type, shape.num * table_columns);
                      const auto y = sized.output(type, places * table_columns);
                      sized.launch = [=](const OperandAddresses& at, Stream stream) {
                        embedding_forward(type, type, at.as<const std::int32_t>(indices), at[table], at[y], shape,
                                          stream);
                      };
                    });
  for (const bool adds : {false, true}) {
    add_sequence_case(cases, "embedding_backward", type, adds ? "adds" : "", "embedding_backward_kernel",
                      [=](SizedCase& sized, std::int64_t samples, std::int64_t places) {
                        const EmbeddingShape shape{places, 0, num_rows(samples), num_rows(samples), table_columns};
                        const std::int64_t count = shape.num * shape.dim;
                        sized.bytes = bytes(type, places * table_columns) + bytes(DType::f32, count) * (adds ? 2 : 1);
                        const auto dy = sized.input(type, places * table_columns);
                        const auto indices = sized.input(DType::i32, places, 0, static_cast<double>(shape.num));
                        const auto dtable = adds ? sized.modified(DType::f32, count) : sized.output(DType::f32, count);
                        sized.launch = [=](const OperandAddresses& at, Stream stream) {
                          embedding_backward(type, DType::f32, at[dy], at.as<const std::int32_t>(indices), at[dtable],
                                             adds, shape, stream);
                        };
                      });
  }
}

void add_positions(KernelCases& cases, DType type) {
  add_sequence_case(cases, "position_embedding_forward", type, "", "position_embedding_forward_kernel",
                    [=](SizedCase& sized, std::int64_t samples, std::int64_t places) {
                      const std::int64_t count = places * table_columns;
                      const PositionEmbeddingShape shape{samples, sequence_places, table_columns, sequence_places};
                      sized.bytes = 2 * static_cast<std::int64_t>(size_of(type)) * count;
                      const auto x = sized.input(type, count);
                      const auto table = sized.input(DType::f32, sequence_places * table_columns);
                      const auto y = sized.output(type, count);
                      sized.launch = [=](const OperandAddresses& at, Stream stream) {
                        position_embedding_forward(type, at[x], at.as<const float>(table), nullptr, at[y], shape,
                                                   stream);
                      };
                    });
  add_sequence_case(cases, "position_embedding_backward", type, "", "position_embedding_backward_kernel",
                    [=](SizedCase& sized, std::int64_t samples, std::int64_t places) {
                      const std::int64_t count = places * table_columns;
                      const PositionEmbeddingShape shape{samples, sequence_places, table_columns, sequence_places};
                      sized.bytes = static_cast<std::int64_t>(size_of(type)) * count;
                      const auto dy = sized.input(type, count);
                      const auto dtable = sized.output(DType::f32, sequence_places * table_columns);
                      sized.launch = [=](const OperandAddresses& at, Stream stream) {
                        position_embedding_backward(type, at[dy], at.as<float>(dtable), shape, stream);
                      };
                    });
}

void add_documents(KernelCases& cases) {
  cases.push_back({.name = case_name("document_spans", DType::i32, ""),
                   .kernels = {"document_spans_kernel"},
                   .units = 16384,
                   .least_units = 3,
                   .sized = [](std::int64_t samples, Library&) {
                     SizedCase sized{.shape = fmt::format("{} x {}", samples, sequence_places),
                                     .bytes = 16 * samples * sequence_places};
                     const auto tokens = sized.input(DType::i32, samples * sequence_places, 0, 9);
                     const auto spans = sized.output(DType::i32, 2 * samples * sequence_places);
                     const auto found = sized.output(DType::i32, samples * sequence_places);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       document_spans({.tokens = at.as<const std::int32_t>(tokens),
                                       .spans = at.as<std::int32_t>(spans),
                                       .places = at.as<std::int32_t>(found),
                                       .samples = samples,
                                       .length = sequence_places,
                                       .document_token = 1,
                                       .pad_token = 2,
                                       .has_padding = true},
                                      stream);
                     };
                     return sized;
                   }});
}

}  // namespace

void add_embedding_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    add_lookups(cases, type);
    add_positions(cases, type);
  }
  add_documents(cases);
}

}  // namespace trainer::cuda
