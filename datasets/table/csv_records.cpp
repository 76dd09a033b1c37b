#include "datasets/table/csv_records.h"

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
constexpr std::size_t most_record_bytes = std::size_t{16} << 20;

}  // namespace

DataError CsvRecords::error(std::int64_t line, std::int64_t column, const std::string& message) const {
  return DataError(fmt::format("{}:{}:{}: {}", file_.name(), line, column, message));
}

int CsvRecords::peek() {
  if (chunk_position_ == chunk_.size()) {
    const bool first = file_.offset() == 0;
    chunk_.resize(chunk_bytes);
    chunk_.resize(file_.read(reinterpret_cast<std::byte*>(chunk_.data()), chunk_.size()));
    chunk_position_ = 0;
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (first && std::string_view(chunk_.data(), chunk_.size()).starts_with(byte_order_mark))
      chunk_position_ = byte_order_mark.size();
    if (chunk_position_ == chunk_.size()) return end_of_file;
  }
  return static_cast<unsigned char>(chunk_[chunk_position_]);
}

int CsvRecords::get() {
  const int character = peek();
  if (character == end_of_file) return end_of_file;
  ++chunk_position_;
  if (character == 0) throw error(line_, column_, "a NUL byte, expected text");
  const bool continues_character = (character & 0xC0) == 0x80;
  if (character == '\n') {
    ++line_;
    column_ = 1;
  } else if (!continues_character) {
    ++column_;
  }
  return character;
}

void CsvRecords::skip_line_end() {
  const int character = get();
  if (character != '\r') return;
  if (peek() == '\n') {
    get();
  } else {
    ++line_;
    column_ = 1;
  }
}

void CsvRecords::append(int character) {
  if (text_.size() == most_record_bytes)
    throw error(record_line_, 1,
                fmt::format("a record of more than {} bytes; is a quote left open?", most_record_bytes));
  text_.push_back(static_cast<char>(character));
}

void CsvRecords::read_field() {
  CsvField field;
  field.line = line_;
  field.column = column_;
  field.quoted = peek() == '"';
  if (field.quoted) {
    get();
    for (;;) {
      const int character = get();
      if (character == end_of_file) throw error(field, "this quote is never closed");
      if (character == '"') {
        if (peek() != '"') break;
        get();
      }
      append(character);
    }
    const int next_character = peek();
    if (next_character != end_of_file && next_character != static_cast<unsigned char>(delimiter_) &&
        !at_line_end(next_character))
      throw error(line_, column_, "text after a closing quote, expected a delimiter or the end of the line");
  } else {
    for (int character = peek();
         character != end_of_file && character != static_cast<unsigned char>(delimiter_) && !at_line_end(character);
         character = peek())
      append(get());
  }
  fields_.push_back(field);
  ends_.push_back(text_.size());
}

bool CsvRecords::next() {
  text_.clear();
  ends_.clear();
  fields_.clear();
  while (at_line_end(peek())) skip_line_end();
  if (peek() == end_of_file) return false;
  record_line_ = line_;
  read_field();
  while (peek() == static_cast<unsigned char>(delimiter_)) {
    get();
    read_field();
  }
  if (peek() != end_of_file) skip_line_end();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    fields_[i].text = std::string_view(text_).substr(begin, ends_[i] - begin);
    begin = ends_[i];
  }
  return true;
}

}  // namespace trainer
