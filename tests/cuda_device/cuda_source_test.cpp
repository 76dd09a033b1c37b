#include "cuda/device/cuda_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "engine/errors.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

constexpr std::int64_t granule = CudaSource::granule;

/// Stands in for a GPU: counts what is held, checks what the driver would refuse, and fails the n-th call.
struct FakeGpu {
  std::map<std::uintptr_t, std::size_t> segments;
  std::map<CUdeviceptr, std::size_t> ranges;
  std::map<CUmemGenericAllocationHandle, std::size_t> sizes;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;  ///< where a piece begins
  std::map<CUmemGenericAllocationHandle, int> references;
  std::set<CUdeviceptr> accessible;
  std::uintptr_t next_address = 1 << 21;
  CUmemGenericAllocationHandle next_handle = 1;
  int calls_until_failure = -1;
  int failure = CUDA_ERROR_OUT_OF_MEMORY;
  bool kernels_run = false;
  std::vector<std::string> mistakes;
  std::shared_ptr<MemoryChanges> changes = std::make_shared<MemoryChanges>();

  void must_be_told_of(const char* call) {
    if (changes->num_begun() != changes->num_ended() + 1) mistakes.emplace_back(std::string(call) + " not told of");
  }
  bool overlaps(CUdeviceptr address, std::size_t num_bytes) {
    return std::any_of(mapped.begin(), mapped.end(), [&](const auto& piece) {
      return piece.first < address + num_bytes && address < piece.first + sizes[piece.second];
    });
  }
  bool fails() { return calls_until_failure >= 0 && calls_until_failure-- == 0; }
  void drop(CUmemGenericAllocationHandle handle) {
    if (--references[handle] == 0) references.erase(handle);
  }
};
FakeGpu* gpu = nullptr;

MemoryCalls fake_memory_calls() {
  MemoryCalls calls;
  calls.allocate = [](void** address, std::size_t num_bytes) {
    gpu->must_be_told_of("allocate");
    if (gpu->fails()) return static_cast<cudaError_t>(gpu->failure);
    *address = reinterpret_cast<void*>(gpu->next_address);
    gpu->segments[gpu->next_address] = num_bytes;
    gpu->next_address += num_bytes;
    return cudaSuccess;
  };
  calls.free = [](void* address) {
    gpu->must_be_told_of("free");
    if (gpu->kernels_run) gpu->mistakes.emplace_back("freed under running kernels");
    if (gpu->segments.erase(reinterpret_cast<std::uintptr_t>(address)) != 1) gpu->mistakes.emplace_back("free");
    return cudaSuccess;
  };
  calls.synchronize = [] {
    gpu->kernels_run = false;
    return cudaSuccess;
  };
  calls.reserve = [](CUdeviceptr* address, std::size_t num_bytes, std::size_t, CUdeviceptr, unsigned long long) {
    if (gpu->fails()) return static_cast<CUresult>(gpu->failure);
    *address = gpu->next_address;
    gpu->ranges[*address] = num_bytes;
    gpu->next_address += num_bytes;
    return CUDA_SUCCESS;
  };
  calls.free_range = [](CUdeviceptr address, std::size_t num_bytes) {
    if (gpu->ranges[address] != num_bytes) gpu->mistakes.emplace_back("free_range");
    gpu->ranges.erase(address);
    return CUDA_SUCCESS;
  };
  calls.create = [](CUmemGenericAllocationHandle* handle, std::size_t num_bytes, const CUmemAllocationProp* kind,
                    unsigned long long) {
    gpu->must_be_told_of("create");
    if (gpu->fails()) return static_cast<CUresult>(gpu->failure);
    if (num_bytes == 0 || num_bytes % granule != 0 || kind->location.id != 3) gpu->mistakes.emplace_back("create");
    *handle = gpu->next_handle++;
    gpu->references[*handle] = 1;
    gpu->sizes[*handle] = num_bytes;
    return CUDA_SUCCESS;
  };
  calls.release = [](CUmemGenericAllocationHandle handle) {
    gpu->drop(handle);
    return CUDA_SUCCESS;
  };
  calls.map = [](CUdeviceptr address, std::size_t num_bytes, std::size_t, CUmemGenericAllocationHandle handle,
                 unsigned long long) {
    if (gpu->fails()) return static_cast<CUresult>(gpu->failure);
    if (gpu->overlaps(address, num_bytes)) gpu->mistakes.emplace_back("mapped twice");
    if (gpu->sizes[handle] != num_bytes) gpu->mistakes.emplace_back("mapped in part");
    gpu->mapped[address] = handle;
    ++gpu->references[handle];
    return CUDA_SUCCESS;
  };
  calls.unmap = [](CUdeviceptr address, std::size_t num_bytes) {
    gpu->must_be_told_of("unmap");
    if (gpu->kernels_run) gpu->mistakes.emplace_back("unmapped under running kernels");
    for (std::size_t offset = 0; offset < num_bytes;) {
      const auto found = gpu->mapped.find(address + offset);
      if (found == gpu->mapped.end() || offset + gpu->sizes[found->second] > num_bytes) {
        gpu->mistakes.emplace_back("unmapped what is not mapped, or a part of a piece");
        return CUDA_ERROR_INVALID_VALUE;
      }
      const std::size_t size = gpu->sizes[found->second];
      for (std::size_t i = 0; i < size; i += granule) gpu->accessible.erase(address + offset + i);
      gpu->drop(found->second);
      gpu->mapped.erase(found);
      offset += size;
    }
    return CUDA_SUCCESS;
  };
  calls.allow = [](CUdeviceptr address, std::size_t num_bytes, const CUmemAccessDesc* access, std::size_t) {
    if (gpu->fails()) return static_cast<CUresult>(gpu->failure);
    if (access->location.id != 3) gpu->mistakes.emplace_back("allow");
    for (std::size_t offset = 0; offset < num_bytes; offset += granule) gpu->accessible.insert(address + offset);
    return CUDA_SUCCESS;
  };
  return calls;
}

struct SourceFixture {
  FakeGpu fake;
  CudaSource source{3, 10 * granule, fake_memory_calls(), fake.changes};
  SourceFixture() { gpu = &fake; }
  ~SourceFixture() {
    CHECK(fake.mistakes.empty());
    gpu = nullptr;
  }
  SourceFixture(const SourceFixture&) = delete;
  SourceFixture& operator=(const SourceFixture&) = delete;
};

}  // namespace

TEST_CASE_METHOD(SourceFixture, "segments count towards the capacity until they are released") {
  void* first = source.acquire(4 * granule);
  REQUIRE(first != nullptr);
  CHECK(source.held() == 4 * granule);
  CHECK(source.acquire(6 * granule + 1) == nullptr);
  void* second = source.acquire(6 * granule);
  REQUIRE(second != nullptr);
  CHECK(fake.changes->held() == 10 * granule);
  fake.kernels_run = true;
  source.release(first, 4 * granule);
  CHECK_FALSE(fake.kernels_run);
  source.release(second, 6 * granule);
  CHECK(source.held() == 0);
  CHECK(fake.changes->held() == 0);
  CHECK(fake.segments.empty());
}

TEST_CASE_METHOD(SourceFixture, "a GPU without memory left gives no segment, and a GPU that failed is an error") {
  fake.calls_until_failure = 0;
  CHECK(source.acquire(granule) == nullptr);
  CHECK(source.held() == 0);
  CHECK(source.acquire(granule) != nullptr);

  fake.calls_until_failure = 0;
  fake.failure = cudaErrorIllegalAddress;
  CHECK_THROWS_AS(source.acquire(granule), DeviceError);
  CHECK(source.held() == granule);
}

TEST_CASE_METHOD(SourceFixture, "every part of a range that is mapped is one piece, unmapped alone or with others") {
  char* range = static_cast<char*>(source.reserve_range(100 * granule));
  CHECK(source.held() == 0);
  REQUIRE(source.map(range, 5 * granule));
  REQUIRE(source.map(range + 5 * granule, granule));
  REQUIRE(source.map(range + 6 * granule, granule));
  CHECK(source.held() == 7 * granule);
  CHECK(fake.references.size() == 3);
  CHECK(fake.accessible.size() == 7);

  fake.kernels_run = true;
  source.unmap(range + 5 * granule, granule);
  CHECK(source.held() == 6 * granule);
  CHECK(fake.references.size() == 2);
  REQUIRE(source.map(range + 5 * granule, granule));
  fake.kernels_run = true;
  source.unmap(range, 7 * granule);
  source.release_range(range, 100 * granule);
  CHECK(fake.references.empty());
  CHECK(fake.accessible.empty());
  CHECK(fake.ranges.empty());
  CHECK(source.held() == 0);
}

TEST_CASE_METHOD(SourceFixture, "segments and granules share one capacity") {
  char* range = static_cast<char*>(source.reserve_range(100 * granule));
  REQUIRE(source.acquire(7 * granule) != nullptr);
  CHECK_FALSE(source.map(range, 4 * granule));
  CHECK(fake.mapped.empty());
  CHECK(source.map(range, 3 * granule));
  CHECK(source.acquire(1) == nullptr);
}

TEST_CASE_METHOD(SourceFixture, "a mapping that fails at any call leaves nothing behind") {
  char* range = static_cast<char*>(source.reserve_range(100 * granule));
  REQUIRE(source.map(range, granule));
  const int failure = GENERATE(int{CUDA_ERROR_OUT_OF_MEMORY}, int{CUDA_ERROR_ILLEGAL_ADDRESS});
  fake.failure = failure;
  // A creation, a mapping, and a call for access.
  for (int call = 0; call < 3; ++call) {
    INFO("call " << call);
    fake.calls_until_failure = call;
    if (failure == CUDA_ERROR_OUT_OF_MEMORY)
      CHECK_FALSE(source.map(range + 4 * granule, 3 * granule));
    else
      CHECK_THROWS_AS(source.map(range + 4 * granule, 3 * granule), DeviceError);
    CHECK(source.held() == granule);
    CHECK(fake.mapped.size() == 1);
    CHECK(fake.references.size() == 1);
  }
  fake.calls_until_failure = 3;
  CHECK(source.map(range + 4 * granule, 3 * granule));
}

TEST_CASE_METHOD(SourceFixture, "a range that is refused is an error") {
  fake.calls_until_failure = 0;
  CHECK_THROWS_AS(source.reserve_range(100 * granule), DeviceError);
}

TEST_CASE("a GPU without virtual memory of its own offers no ranges") {
  MemoryCalls calls = fake_memory_calls();
  calls.reserve = nullptr;
  CHECK(CudaSource(3, granule, calls, std::make_shared<MemoryChanges>()).granule_bytes() == 0);
  CHECK(CudaSource(3, granule, fake_memory_calls(), std::make_shared<MemoryChanges>()).granule_bytes() == granule);
}
