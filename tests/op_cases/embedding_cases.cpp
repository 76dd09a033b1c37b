#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "tests/op_cases/embedding_checks.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

struct Lookup {
  std::string name;
  Shape places;
  std::int64_t num, dim;
};

std::vector<Lookup> lookups() {
  return {{"one index", {1}, 1, 1},
          {"one index each", {7}, 5, 3},
          {"rows of them", {3, 5}, 11, 8},
          {"few rows, many places", {5, 67}, 3, 33},
          {"more rows and columns than a block has", {2, 9}, 131, 257},
          {"more places than are looked at at once", {3, 401}, 70, 5}};
}

/// Most of them in [0, num), many the same, and some not.
Values indices_of(const Lookup& lookup) {
  Values indices = random_values(TensorType{DType::i32, lookup.places}, 5, 0, 1);
  for (double& index : indices) index = std::floor(index * index * static_cast<double>(lookup.num));
  if (indices.size() > 5) {
    indices[2] = static_cast<double>(lookup.num);
    indices[4] = -1;
  }
  return indices;
}

bool is_there(const Lookup& lookup, double index) { return index >= 0 && index < static_cast<double>(lookup.num); }

Reference rows_of(const Lookup& lookup, Values indices) {
  return [=](const std::vector<Values>& inputs) {
    Values y;
    for (const double index : indices)
      for (std::int64_t c = 0; c < lookup.dim; ++c)
        y.push_back(is_there(lookup, index)
                        ? inputs[0][static_cast<std::size_t>(static_cast<std::int64_t>(index) * lookup.dim + c)]
                        : 0);
    return y;
  };
}

Op lookup_op(const Lookup& lookup, DType table, DType y, DType gradient) {
  Op op = embedding_op({DType::i32, lookup.places}, lookup.num, lookup.dim);
  op.inputs[1].dtype = table;
  op.outputs[0].dtype = y;
  std::get<EmbeddingAttributes>(op.attributes).gradient = gradient;
  return op;
}

/// The types of a table and of what is read of it.
constexpr std::pair<DType, DType> lookup_types[] = {{DType::f32, DType::f32},
                                                    {DType::f32, DType::f16},
                                                    {DType::f32, DType::bf16},
                                                    {DType::f16, DType::f16},
                                                    {DType::bf16, DType::bf16}};

std::string name(const Lookup& lookup, DType table, DType y) {
  return lookup.name + ", " + std::string(name_of(table)) + " as " + std::string(name_of(y));
}

/// Rows 4 to 6 of 9, of which others are elsewhere.
Op part_of_lookup() {
  Op op = embedding_op({DType::i32, {2, 4}}, 3, 2);
  std::get<EmbeddingAttributes>(op.attributes).all_rows = 9;
  std::get<EmbeddingAttributes>(op.attributes).first_row = 4;
  return op;
}
const Values part_indices = {4, 3, 6, 7, 5, 0, 8, 4};

struct Sequences {
  Shape x;
  std::int64_t length;
};

std::vector<Sequences> sequences() {
  return {{{1, 1, 1}, 1}, {{3, 5, 7}, 5}, {{2, 3, 8}, 9}, {{5, 67, 130}, 70}, {{9, 2, 1028}, 2}};
}

Reference placed_rows(const Sequences& of) {
  return [of](const std::vector<Values>& inputs) {
    Values y = inputs[0];
    const auto row = static_cast<std::size_t>(of.x[1] * of.x[2]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += inputs[1][i % row];
    return y;
  };
}

}  // namespace

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  for (const Lookup& lookup : lookups())
    for (const auto& [table_type, y_type] : lookup_types) {
      const Values indices = indices_of(lookup);
      const Op op = lookup_op(lookup, table_type, y_type, DType::f32);
      const Values table = rounded_to(table_type, random_values(op.inputs[1], 1));
      Values y = rows_of(lookup, indices)({table});
      for (std::size_t i = 0; i < y.size(); ++i)
        if (!is_there(lookup, indices[i / static_cast<std::size_t>(lookup.dim)])) y[i] = std::nan("");
      cases.push_back({name(lookup, table_type, y_type), op, {indices, table}, {{rounded_to(y_type, y)}}});
      cases.back().tolerance = 1e-9;
    }
  cases.push_back({"a part of the rows",
                   part_of_lookup(),
                   {part_indices, {1, 2, 3, 4, 5, 6}},
                   {{{1, 2, 0, 0, 5, 6, 0, 0, 3, 4, 0, 0, 0, 0, 1, 2}}}});
  return cases;
}

std::vector<OpCase> embedding_backward_cases() {
  std::vector<OpCase> cases;
  for (const Lookup& lookup : lookups())
    for (const auto& [table_type, y_type] : lookup_types) {
      const Values indices = indices_of(lookup);
      const Op op = embedding_backward_op(lookup_op(lookup, DType::f32, y_type, table_type));
      const Values dy = rounded_to(y_type, random_values(op.inputs[0], 2));
      const Values table = random_values(op.outputs[0], 1);
      // Of each number a difference of what is linear: all of them, by hand.
      Values gradient(table.size(), 0);
      for (std::size_t i = 0; i < dy.size(); ++i) {
        const double index = indices[i / static_cast<std::size_t>(lookup.dim)];
        if (is_there(lookup, index))
          gradient[static_cast<std::size_t>(index) * static_cast<std::size_t>(lookup.dim) +
                   i % static_cast<std::size_t>(lookup.dim)] += dy[i];
      }
      check_close(gradient, finite_difference(rows_of(lookup, indices), {table}, 0, dy), 1e-6, "of the reference");
      cases.push_back({name(lookup, table_type, y_type), op, {dy, indices}, {{gradient}}});
      const Values before = rounded_to(table_type, random_values(op.outputs[0], 3));
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += before[i];
      cases.push_back({name(lookup, table_type, y_type) + ", added",
                       embedding_add_backward_op(op),
                       {dy, indices, before},
                       {{}, {{2, gradient}}}});
      cases.back().tolerance += rounding_of(table_type);
    }
  const Op of_part = embedding_backward_op(part_of_lookup());
  const Values dy = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  cases.push_back({"a part of the rows", of_part, {dy, part_indices}, {{{16, 18, 9, 10, 5, 6}}}});
  return cases;
}

std::vector<OpCase> position_embedding_cases() {
  std::vector<OpCase> cases;
  for (const Sequences& of : sequences()) {
    const Op op = position_embedding_op({DType::f32, of.x}, of.length);
    const Values x = random_values(op.inputs[0], 1), table = random_values(op.inputs[1], 2);
    cases.push_back({of.x.to_string(), op, {x, table}, {{placed_rows(of)({x, table})}}});
    // The places backwards.
    const std::int64_t channels = of.x[2], num_rows = of.x[0] * of.x[1];
    Values places, y = x;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const std::int64_t place = of.length - 1 - row % of.length;
      places.push_back(static_cast<double>(place));
      for (std::int64_t i = 0; i < channels; ++i)
        y[static_cast<std::size_t>(row * channels + i)] += table[static_cast<std::size_t>(place * channels + i)];
    }
    cases.push_back({of.x.to_string() + " at places", position_embedding_at_op(op), {x, table, places}, {{y}}});
  }
  return cases;
}

std::vector<OpCase> position_embedding_backward_cases() {
  std::vector<OpCase> cases;
  for (const Sequences& of : sequences()) {
    const Op op = position_embedding_op({DType::f32, of.x}, of.length);
    const Values x = random_values(op.inputs[0], 1), table = random_values(op.inputs[1], 2);
    const Values dy = random_values(op.inputs[0], 3);
    cases.push_back({of.x.to_string(),
                     position_embedding_backward_op(op),
                     {dy},
                     {{finite_difference(placed_rows(of), {x, table}, 1, dy)}}});
  }
  return cases;
}

void check_unknown_indices(Device& device) {
  for (const auto& [table_type, y_type] : lookup_types) {
    const Lookup lookup{"", {6}, 3, 9};
    const Values indices = {0, -1, 3, 2147483647, -2147483648.0, 2};
    const Op op = lookup_op(lookup, table_type, y_type, DType::f32);
    const Values table(27, 1), dy(54, 1);
    const OpResult result = run_op(device, {"", op, {indices, table}, {}}, std::byte{0});
    const Values y = to_values(op.outputs[0], result.outputs[0]);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i < 9 || i >= 45)
        CHECK(y[i] == 1);
      else
        CHECK(std::isnan(y[i]));
    }
    const OpResult backward = run_op(device, {"", embedding_backward_op(op), {dy, indices}, {}}, std::byte{1});
    Values expected(27, 1);
    std::fill(expected.begin() + 9, expected.begin() + 18, 0);
    CHECK(to_values({DType::f32, {3, 9}}, backward.outputs[0]) == expected);
  }
  const Op op = position_embedding_at_op(position_embedding_op({DType::f32, {2, 3, 5}}, 7));
  const Values places = {6, 7, -1, 0, -2147483648.0, 2147483647};
  const OpResult result = run_op(device, {"", op, {Values(30, 1), Values(35, 1), places}, {}}, std::byte{0});
  const Values y = to_values(op.outputs[0], result.outputs[0]);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i < 5 || (i >= 15 && i < 20))
      CHECK(y[i] == 2);
    else
      CHECK(std::isnan(y[i]));
  }
}

}  // namespace trainer
