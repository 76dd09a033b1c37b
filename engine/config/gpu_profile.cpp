#include "engine/config/gpu_profile.h"

#include <cmath>
#include <filesystem>

#include "engine/bytes.h"
#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/gpu_profile_fields.h"
#include "engine/config/yaml/compose.h"

namespace trainer {
namespace {

using ProfileField = Field<GpuProfile>;

template <class Member>
ProfileField of(Member GpuProfile::*member, const std::string& key, Rule rule, const std::string& help) {
  const auto access = [member](auto& profile) -> auto& { return profile.*member; };
  return field<GpuProfile>(key, access, std::move(rule), help);
}

/// Written 9.0, kept as 90.
ProfileField compute_capability() {
  Rule rule = number_at_least(5.0);
  rule.maximum = 99;
  ProfileField result;
  result.key = "compute_capability";
  result.rule = rule;
  result.help = "Major and minor number of its architecture, such as 9.0";
  result.set = [](GpuProfile& profile, const Value& value) {
    profile.compute_capability = static_cast<int>(std::lround(std::get<double>(value) * 10));
  };
  result.get = [](const GpuProfile& profile) { return Value(profile.compute_capability / 10.0); };
  return result;
}

void check_required(const GivenKeys& given, SourceSet& sources) {
  for (const ProfileField& field : gpu_profile_fields()) {
    if (field.is_required && !given.has(field.key))
      sources.report(given.mark(field.key), fmt::format("'{}' is missing", field.key), expectation_of(field.rule));
  }
}

void check_sizes(const GpuProfile& profile, const GivenKeys& given, SourceSet& sources) {
  const auto is_sound = [&](const char* key) { return given.has(key) && !given.broken.contains(key); };
  if (!is_sound("memory.usable")) return;
  if (is_sound("memory.total") && profile.usable_bytes > profile.total_bytes)
    sources.report(given.mark("memory.usable"), "more memory is usable than there is",
                   fmt::format("at most memory.total, {}", format_bytes(profile.total_bytes)));
  if (is_sound("outside_allocator.context") && is_sound("outside_allocator.libraries") && profile.free_bytes() <= 0)
    sources.report(given.mark("outside_allocator.context"), "context and libraries leave nothing of the usable memory",
                   fmt::format("less than memory.usable, {}, together", format_bytes(profile.usable_bytes)));
}

}  // namespace

std::string GpuProfile::cudnn_path() const {
  if (cudnn.empty()) return {};
  return (std::filesystem::path(path).parent_path() / cudnn).string();
}

const std::vector<ProfileField>& gpu_profile_fields() {
  using Profile = GpuProfile;
  static const std::vector<ProfileField> all{
      of(&Profile::name, "name", text(), "What NVIDIA's tools call it").required(),
      compute_capability().required(),
      of(&Profile::num_multiprocessors, "multiprocessors", integer(1), "Number of multiprocessors")
          .required()
          .also_called({"sms", "num_sms", "multi_processor_count"}),
      of(&Profile::total_bytes, "memory.total", size_of_memory(), "Memory that nvidia-smi shows as its total")
          .required(),
      of(&Profile::usable_bytes, "memory.usable", size_of_memory(), "Memory that CUDA tells a process as the total")
          .required()
          .also_called({"capacity"}),
      of(&Profile::bandwidth, "memory.bandwidth", size_of_memory(), "Bytes that the memory moves in a second")
          .required(),
      of(&Profile::context_bytes, "outside_allocator.context", size_of_memory(0), "What a CUDA context holds")
          .required(),
      of(&Profile::library_bytes, "outside_allocator.libraries", size_of_memory(0),
         "What handles of cuBLASLt and cuDNN and the kernels that are loaded hold")
          .required(),
      of(&Profile::fp32, "peak.fp32", number_above(0.0), "TFLOP/s of f32 without tensor cores").required(),
      of(&Profile::tf32, "peak.tf32", number_at_least(0.0), "TFLOP/s of TF32 tensor cores, without sparsity; 0: none"),
      of(&Profile::fp16, "peak.fp16", number_at_least(0.0), "TFLOP/s of 16-bit tensor cores, without sparsity; 0: none")
          .also_called({"bf16"}),
      of(&Profile::nvlink, "links.nvlink", size_of_memory(0),
         "Bytes a second in one direction over NVLink, to the other GPUs of its machine; 0: none"),
      of(&Profile::pcie, "links.pcie", size_of_memory(0),
         "Bytes a second in one direction over PCI Express; 0: unknown")
          .also_called({"pci"}),
      of(&Profile::network, "links.network", size_of_memory(0),
         "Bytes a second in one direction to other machines, for each GPU of a machine; 0: unknown")
          .also_called({"infiniband", "ethernet", "nic"}),
      of(&Profile::network_latency, "links.network_latency", number_at_least(0.0),
         "Microseconds that a message to another machine takes, however short"),
      of(&Profile::cudnn, "cudnn", text(), "A file beside this one with the device's properties as cuDNN takes them"),
  };
  return all;
}

GpuProfile parse_gpu_profile(std::string_view text, const std::string& file_name) {
  SourceSet sources;
  const Node root = parse_keys(sources, text, file_name, "the keys of a GPU, see configs/gpus/", "name: NVIDIA H200");
  GpuProfile profile;
  profile.path = file_name;
  const GivenKeys given = FieldReader(gpu_profile_fields(), profile, sources).read(root);
  check_required(given, sources);
  check_sizes(profile, given, sources);
  sources.throw_mistakes();
  return profile;
}

GpuProfile load_gpu_profile(const std::string& path) { return parse_gpu_profile(read_config_file(path), path); }

}  // namespace trainer
