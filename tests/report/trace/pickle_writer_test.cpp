#include "engine/report/trace/pickle_writer.h"

#include <catch2/catch.hpp>
#include <string>

namespace trainer {

namespace {

template <typename Write>
std::string pickle_of(Write&& write) {
  std::string bytes;
  PickleWriter pickle([&](std::string_view piece) { bytes += piece; });
  write(pickle);
  pickle.finish();
  return bytes;
}

std::string raw(std::string_view bytes) { return std::string(bytes); }

}  // namespace

// The bytes are those that Python's pickle module reads so: tests/scripts/export_trace_test.py loads whole files.
TEST_CASE("A pickle holds each kind of value as its opcode says") {
  using namespace std::string_literals;
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.number(255); }) == "\x80\x02K\xff."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.number(256); }) == "\x80\x02M\x00\x01."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.number(65536); }) == "\x80\x02J\x00\x00\x01\x00."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.number(-1); }) == "\x80\x02J\xff\xff\xff\xff."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.number(std::int64_t{1} << 40); }) ==
        "\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x01\x00\x00."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.real(1.5); }) == "\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.flag(true); }) == "\x80\x02\x88."s);
  CHECK(pickle_of([](PickleWriter& pickle) { pickle.pair(1, 2); }) == "\x80\x02K\x01K\x02\x86."s);
}

TEST_CASE("A text that stands twice in a pickle is written once") {
  using namespace std::string_literals;
  const std::string bytes = pickle_of([](PickleWriter& pickle) {
    pickle.begin_dict();
    pickle.key("a");
    pickle.begin_list();
    pickle.text("b");
    pickle.text("a");
    pickle.end_list();
    pickle.key("b");
    pickle.begin_dict();
    pickle.end_dict();
    pickle.end_dict();
  });
  CHECK(bytes == "\x80\x02}(X\x01\x00\x00\x00"s + "aq\x00](X\x01\x00\x00\x00"s + "bq\x01h\x00"s + "eh\x01}u."s);
}

TEST_CASE("A text in a pickle is UTF-8 without control characters, whatever it was") {
  const std::string bytes = pickle_of([](PickleWriter& pickle) { pickle.text("\x1b\xff\xc3\xa9"); });
  CHECK(bytes.find(raw("\\x1b\\xff\xc3\xa9")) != std::string::npos);
}

TEST_CASE("A long list in a pickle is appended in pieces of a thousand") {
  const std::string bytes = pickle_of([](PickleWriter& pickle) {
    pickle.begin_list();
    for (int i = 0; i < 2001; ++i) pickle.flag(false);
    pickle.end_list();
  });
  const std::string thousand = '(' + std::string(1000, '\x89') + 'e';
  CHECK(bytes == raw("\x80\x02]") + thousand + thousand + raw("(\x89") + "e.");
}

TEST_CASE("What is shared in a pickle is referred to, also beyond the first 256") {
  using namespace std::string_literals;
  const std::string bytes = pickle_of([](PickleWriter& pickle) {
    pickle.begin_list();
    PickleWriter::Shared last = 0;
    for (int i = 0; i < 257; ++i) {
      last = pickle.begin_shared_list();
      pickle.end_list();
    }
    pickle.share(0);
    pickle.share(last);
    pickle.end_list();
  });
  CHECK(bytes.ends_with("]r\x00\x01\x00\x00h\x00j\x00\x01\x00\x00"s + "e."));
}

}  // namespace trainer
