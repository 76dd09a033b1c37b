#include "cuda/library/rank_link.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/library/group_links.h"
#include "engine/half.h"
#include "engine/ops/op_definition.h"
#include "tests/cuda/emulated_device.h"
#include "tests/ranks/rank_threads.h"

// NCCL between ranks that are threads, or processes: what answers for it is tests/fake_nccl.

using namespace trainer;
using namespace trainer::cuda;
using Catch::Matchers::Contains;

namespace {

const Nccl& fake_nccl() {
  static const Nccl library(TRAINER_FAKE_NCCL);
  return library;
}

/// What each rank has: small whole numbers, whose sums every type holds.
std::vector<float> numbers_on(int rank, std::int64_t count) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>((i * 7 + rank * 3) % 11 - 5));
  return numbers;
}

std::vector<std::byte> stored_as(DType type, const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * size_of(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::byte* const to = bytes.data() + i * size_of(type);
    if (type == DType::f64) {
      const double number = numbers[i];
      std::memcpy(to, &number, sizeof number);
    } else if (type == DType::i64) {
      const auto number = static_cast<std::int64_t>(numbers[i]);
      std::memcpy(to, &number, sizeof number);
    } else {
      narrow(type, &numbers[i], to, 1);
    }
  }
  return bytes;
}

/// The sums over ranks of elements [begin, begin + count).
std::vector<float> sums_of(int num_ranks, std::int64_t of, std::int64_t begin, std::int64_t count) {
  std::vector<float> sums(static_cast<std::size_t>(count));
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::vector<float> all = numbers_on(rank, of);
    for (std::int64_t i = 0; i < count; ++i)
      sums[static_cast<std::size_t>(i)] += all[static_cast<std::size_t>(begin + i)];
  }
  return sums;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("ranks of GPUs add up lists of tensors of every type, and share what rank 0 has") {
  const std::vector<std::int64_t> counts = {1, 63, 100'000};
  for (const int num_ranks : {1, 2, 3, 4})
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64}) {
      std::vector<int> num_wrong(static_cast<std::size_t>(num_ranks));
      on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
        const std::unique_ptr<Device> device = make_emulated_device();
        device->set_communicator(ranks);
        const auto run = [&](const std::function<Op(std::span<const TensorType>, const RankGroup&)>& make,
                             const std::function<std::vector<float>(std::int64_t)>& expected) {
          std::vector<TensorType> types;
          std::vector<std::vector<std::byte>> tensors;
          std::vector<void*> inputs;
          for (const std::int64_t count : counts) {
            types.push_back({type, {count}});
            tensors.push_back(stored_as(type, numbers_on(ranks.rank(), count)));
          }
          for (auto& tensor : tensors) inputs.push_back(tensor.data());
          const Op op = make(types, {num_ranks});
          if (device->workspace_bytes(op) != 0) ++num_wrong[static_cast<std::size_t>(ranks.rank())];
          device->prepare(op).run({.inputs = inputs, .outputs = {}, .workspace = nullptr});
          device->synchronize();
          for (std::size_t i = 0; i < tensors.size(); ++i)
            if (tensors[i] != stored_as(type, expected(types[i].num_elements())))
              ++num_wrong[static_cast<std::size_t>(ranks.rank())];
        };
        run(all_reduce_op, [&](std::int64_t count) { return sums_of(num_ranks, count, 0, count); });
        run(broadcast_op, [&](std::int64_t count) { return numbers_on(0, count); });
      });
      INFO(num_ranks << " ranks, " << name_of(type));
      CHECK(num_wrong == std::vector<int>(static_cast<std::size_t>(num_ranks)));
    }
}

TEST_CASE("ranks of GPUs add up slices and gather them, also in place") {
  for (const int num_ranks : {2, 3, 4}) {
    std::vector<int> num_wrong(static_cast<std::size_t>(num_ranks));
    on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
      RankLink link(fake_nccl(), ranks, {.max_ctas = 2});
      int& wrong = num_wrong[static_cast<std::size_t>(ranks.rank())];
      std::vector<std::vector<float>> whole, slices;
      const std::vector<std::int64_t> counts = {1, 777, 40'000};
      std::vector<RankSlices> apart, within, gathered;
      for (const std::int64_t count : counts) {
        whole.push_back(numbers_on(ranks.rank(), count * num_ranks));
        slices.emplace_back(static_cast<std::size_t>(count));
      }
      for (std::size_t i = 0; i < counts.size(); ++i) {
        float* const own = whole[i].data() + counts[i] * ranks.rank();
        apart.push_back({whole[i].data(), slices[i].data(), counts[i]});
        within.push_back({whole[i].data(), own, counts[i]});
        gathered.push_back({own, whole[i].data(), counts[i]});
      }
      link.reduce_scatter(apart, DType::f32, nullptr);
      for (std::size_t i = 0; i < counts.size(); ++i)
        if (slices[i] != sums_of(num_ranks, counts[i] * num_ranks, counts[i] * ranks.rank(), counts[i])) ++wrong;
      link.reduce_scatter(within, DType::f32, nullptr);
      link.all_gather(gathered, DType::f32, nullptr);
      for (std::size_t i = 0; i < counts.size(); ++i)
        if (whole[i] != sums_of(num_ranks, counts[i] * num_ranks, 0, counts[i] * num_ranks)) ++wrong;
      link.check();
    });
    INFO(num_ranks << " ranks");
    CHECK(num_wrong == std::vector<int>(static_cast<std::size_t>(num_ranks)));
  }
}

TEST_CASE("ranks of GPUs add up in each group of their layout, among its ranks alone") {
  for (const RankLayout& layout : {RankLayout{.num_data = 2, .num_stages = 2, .num_tensor = 2},
                                   RankLayout{.num_data = 3, .num_tensor = 2}, RankLayout{.num_stages = 3}}) {
    const auto num_ranks = static_cast<int>(layout.num_ranks());
    std::vector<std::string> wrong(static_cast<std::size_t>(num_ranks));
    on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
      const RankLayout own = layout.of_rank(ranks.rank());
      GroupLinks links(fake_nccl(), ranks, own, {.max_ctas = 2});
      std::string& of_rank = wrong[static_cast<std::size_t>(ranks.rank())];
      for (const RankGroup& group :
           {own.all(), own.data_group(), own.tensor_group(), own.sample_group(), own.pipeline_group()}) {
        if (group.count == 1) continue;
        double number = 1 + ranks.rank(), sum = 0;
        for (std::int64_t place = 0; place < group.count; ++place) sum += static_cast<double>(1 + group.rank_at(place));
        const RankTensor tensor{&number, 1};
        links.among(group).all_reduce({&tensor, 1}, DType::f64, nullptr);
        if (number != sum) of_rank += std::to_string(group.count) + " by " + std::to_string(group.stride) + ", ";
      }
      if (links.all().size() != num_ranks) of_rank += "all";
      const std::string unknown = message_of([&] { links.among({num_ranks, 0, 2}); });
      if (unknown.find("a group of ranks that adds up has a communicator") == std::string::npos) of_rank += unknown;
      links.check();
    });
    INFO(num_ranks);
    CHECK(wrong == std::vector<std::string>(static_cast<std::size_t>(num_ranks)));
  }
}

TEST_CASE("ranks of GPUs exchange tensors by twos, several at once") {
  constexpr int num_ranks = 4;
  const std::vector<std::int64_t> counts = {1, 777, 40'000};
  std::vector<int> num_wrong(num_ranks);
  on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
    RankLink link(fake_nccl(), ranks, {.max_ctas = 2});
    for (const int bit : {1, 2, 1}) {
      const int other = ranks.rank() ^ bit;
      // The one sends all but the last, the other all but the first.
      const auto is_sent = [&](int rank, std::size_t i) { return (rank & bit) == 0 ? i < 2 : i > 0; };
      std::vector<std::vector<float>> sent, received;
      std::vector<RankTensor> sends, receives;
      for (const std::int64_t count : counts) {
        sent.push_back(numbers_on(ranks.rank(), count));
        received.emplace_back(static_cast<std::size_t>(count));
      }
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (is_sent(ranks.rank(), i)) sends.push_back({sent[i].data(), counts[i]});
        if (is_sent(other, i)) receives.push_back({received[i].data(), counts[i]});
      }
      link.exchange(other, sends, receives, DType::f32, nullptr);
      for (std::size_t i = 0; i < counts.size(); ++i)
        if (is_sent(other, i) && received[i] != numbers_on(other, counts[i]))
          ++num_wrong[static_cast<std::size_t>(ranks.rank())];
    }
    link.check();
  });
  CHECK(num_wrong == std::vector<int>(num_ranks));
}

TEST_CASE(
    "an exchange of which one rank expects another length, or with a rank that fails, ends with what went wrong") {
  std::vector<std::string> told(2);
  on_ranks(2, [&](SocketCommunicator& ranks) {
    RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
    std::vector<float> numbers(10);
    const std::array sends = {RankTensor{numbers.data(), 5}};
    const std::array receives = {RankTensor{numbers.data() + 5, 5 - ranks.rank()}};
    told[static_cast<std::size_t>(ranks.rank())] =
        message_of([&] { link.exchange(1 - ranks.rank(), sends, receives, DType::f32, nullptr); });
  });
  CHECK_THAT(told[1], Contains("NCCL failed (pretended error"));
  CHECK_THROWS_AS(on_ranks(2,
                           [&](SocketCommunicator& ranks) {
                             RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
                             if (ranks.rank() == 1) throw DataError("photo.jpg is damaged");
                             std::vector<float> numbers(10);
                             const std::array both = {RankTensor{numbers.data(), 5}};
                             told[0] = message_of([&] { link.exchange(1, both, both, DType::f32, nullptr); });
                           }),
                  DataError);
  CHECK(told[0] == "rank 1: photo.jpg is damaged");
}

TEST_CASE("ranks of GPUs that are processes add up, and tell of one that is killed") {
  const int port = free_local_port();
  constexpr int size = 3, killed = 2;
  const auto run_rank = [&](int rank) {
    RankEnvironment environment;
    environment.rank = rank;
    environment.size = environment.num_local = size;
    environment.port = port;
    SocketCommunicator ranks(environment, 30);
    RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
    std::vector<float> numbers = numbers_on(rank, 50'000);
    const std::vector<RankTensor> tensors = {{numbers.data(), 50'000}};
    link.all_reduce(tensors, DType::f32, nullptr);
    if (numbers != sums_of(size, 50'000, 0, 50'000)) return 1;
    if (rank == killed) ::raise(SIGKILL);
    const std::string told = message_of([&] { link.all_reduce(tensors, DType::f32, nullptr); });
    return told == "rank 2 was killed, or its machine is gone" ? 0 : 2;
  };
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(::fork());
    REQUIRE(processes.back() >= 0);
    if (processes.back() > 0) continue;
    try {
      ::_exit(run_rank(rank));
    } catch (...) {
      ::_exit(3);
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    REQUIRE(::waitpid(processes[static_cast<std::size_t>(rank)], &status, 0) > 0);
    if (rank == killed)
      CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    else
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("a rank that fails ends those that wait for it within NCCL, and they tell why") {
  std::vector<std::string> told(3);
  CHECK_THROWS_AS(on_ranks(3,
                           [&](SocketCommunicator& ranks) {
                             RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
                             if (ranks.rank() == 1) throw DataError("photo.jpg is damaged");
                             std::vector<float> numbers(10);
                             const std::vector<RankTensor> tensors = {{numbers.data(), 10}};
                             const auto add = [&] { link.all_reduce(tensors, DType::f32, nullptr); };
                             told[static_cast<std::size_t>(ranks.rank())] = message_of(add);
                             if (message_of(add) != message_of([&] { link.check(); })) told[1] = "another reason later";
                           }),
                  DataError);
  CHECK(told == std::vector<std::string>{"rank 1: photo.jpg is damaged", "", "rank 1: photo.jpg is damaged"});
}

TEST_CASE("a rank that fails before it has met the others in NCCL ends them") {
  std::string told;
  CHECK_THROWS_AS(on_ranks(2,
                           [&](SocketCommunicator& ranks) {
                             if (ranks.rank() == 1) {
                               // What NCCL is begun with has come, so rank 0 waits within NCCL.
                               std::vector<std::byte> id(sizeof(NcclUniqueId));
                               ranks.exchange({}, std::array{ReceivedBytes{0, id.data(), sizeof(NcclUniqueId)}});
                               throw DataError("photo.jpg is damaged");
                             }
                             told = message_of([&] { RankLink link(fake_nccl(), ranks, {.max_ctas = 1}); });
                           }),
                  DataError);
  CHECK(told == "rank 1: photo.jpg is damaged");
}

TEST_CASE("ranks whose calls differ, and a way that NCCL loses, are failures of the device") {
  std::vector<std::string> told(2);
  on_ranks(2, [&](SocketCommunicator& ranks) {
    RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
    std::vector<float> numbers(10);
    const std::vector<RankTensor> tensors = {{numbers.data(), 5 + ranks.rank()}};
    told[static_cast<std::size_t>(ranks.rank())] = message_of([&] { link.all_reduce(tensors, DType::f32, nullptr); });
  });
  for (const std::string& each : told)
    CHECK_THAT(each, Contains("NCCL failed (pretended error") && Contains("NCCL_DEBUG"));

  void* const library = dlopen(TRAINER_FAKE_NCCL, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto set_error = reinterpret_cast<void (*)(int)>(dlsym(library, "fake_nccl_set_async_error"));
  REQUIRE(set_error != nullptr);
  set_error(static_cast<int>(NcclResult::remote_error));
  on_ranks(2, [&](SocketCommunicator& ranks) {
    RankLink link(fake_nccl(), ranks, {.max_ctas = 1});
    std::string& found = told[static_cast<std::size_t>(ranks.rank())];
    for (int i = 0; i < 500 && (found = message_of([&] { link.check(); })) == "nothing was thrown"; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  set_error(0);
  for (const std::string& each : told)
    CHECK_THAT(each, Contains("NCCL lost the way to another rank (pretended remote error: no more is known)") &&
                         Contains("checkpoint is intact"));
}

TEST_CASE("an NCCL that is missing, is none or is too old is told of, with what to do") {
  CHECK_THAT(message_of([] { Nccl("libno_such_nccl.so.2"); }),
             Contains("libno_such_nccl.so.2") && Contains("nvidia-nccl-cu13") && Contains("TRAINER_NCCL") &&
                 Contains("device.type=cpu"));
  CHECK_THAT(message_of([] { Nccl("libm.so.6"); }), Contains("libm.so.6 is not NCCL") && Contains("ncclGetVersion"));
  ::setenv("FAKE_NCCL_VERSION", "21405", 1);
  CHECK_THAT(message_of([] { Nccl(TRAINER_FAKE_NCCL); }), Contains("is NCCL 2.14.5, and ranks need 2.18.0 or newer"));
  ::unsetenv("FAKE_NCCL_VERSION");
  CHECK(nccl_version_text(Nccl(TRAINER_FAKE_NCCL).version()) == "2.30.0");
}
