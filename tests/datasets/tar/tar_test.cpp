#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "datasets/tar/shard_pattern.h"
#include "datasets/tar/tar_index.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

struct Packed {
  std::string name, bytes;
  std::string link = "";  ///< a symbolic link to it
};

void write_tar(const std::string& path, const std::vector<Packed>& members,
               int format = ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE) {
  archive* const tar = archive_write_new();
  REQUIRE(archive_write_set_format(tar, format) == ARCHIVE_OK);
  REQUIRE(archive_write_open_filename(tar, path.c_str()) == ARCHIVE_OK);
  for (const Packed& each : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, each.name.c_str());
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_filetype(entry, each.link.empty() ? AE_IFREG : AE_IFLNK);
    if (!each.link.empty()) archive_entry_set_symlink(entry, each.link.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(each.bytes.size()));
    REQUIRE(archive_write_header(tar, entry) == ARCHIVE_OK);
    if (!each.bytes.empty()) archive_write_data(tar, each.bytes.data(), each.bytes.size());
    archive_entry_free(entry);
  }
  REQUIRE(archive_write_close(tar) == ARCHIVE_OK);
  archive_write_free(tar);
}

DataConfig tar_config(const DataFolder& folder, const std::string& train = "a.tar") {
  DataConfig config;
  config.type = DataType::tar;
  config.root = folder.path();
  config.train = train;
  return config;
}

/// "10:1 20:0": levels and classes.
std::string shard_samples(const Dataset& dataset) {
  std::string text;
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "" : " ", pixels_of(dataset, i).back(), dataset.class_of(i));
  return text;
}

}  // namespace

TEST_CASE("Members of a shard that are called alike are a sample, whatever dialect of tar it is") {
  const DataFolder folder;
  const std::string deep = std::string(150, 'd') + "/";
  for (const int format : {ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FORMAT_TAR_USTAR}) {
    const std::string where = format == ARCHIVE_FORMAT_TAR_USTAR ? "d/" : deep;
    write_tar(folder.path("a.tar"),
              {{where + "1.png", png_of(2, 3, 10)},
               {where + "1.cls", " dog\n"},
               {where + "2.json", R"({"label": "cat", "more": [1]})"},
               {where + "2.PNG", png_of(2, 3, 20)},
               {where + "2.txt", "a text"}},
              format);
    const LoadedData data = load_data(tar_config(folder), 1);
    CHECK(shard_samples(*data.train) == "10:1 20:0");
    CHECK(data.preprocessing.classes == std::vector<std::string>{"cat", "dog"});
    CHECK(data.remarks == std::vector<std::string>{"1 file that is no image is left out"});
    CHECK(data.description.held_bytes > 0);
    CHECK(describe_data(tar_config(folder), 1) == data.description);
  }
}

TEST_CASE("Shards follow each other, numbers of classes are ordered as such, and validation has shards of its own") {
  const DataFolder folder;
  write_tar(folder.path("t-00.tar"), {{"1.png", png_of(2, 3, 10)}, {"1.cls", "10"}});
  write_tar(folder.path("t-01.tar"), {{"1.png", png_of(2, 3, 20)}, {"1.json", R"({"label": 9})"}});
  write_tar(folder.path("val.tar"), {{"v.png", png_of(2, 3, 30)}, {"v.cls", "9"}});
  DataConfig config = tar_config(folder, "t-{00..01}.tar");
  config.validation = "val.tar";
  const LoadedData data = load_data(config, 1);
  CHECK(shard_samples(*data.train) == "10:1 20:0");
  REQUIRE(data.validation);
  CHECK(shard_samples(*data.validation) == "30:0");
  config.train = "t-*.tar";
  CHECK(shard_samples(*load_data(config, 1).train) == "10:1 20:0");
  config.class_names = {"9"};
  CHECK(shard_samples(*load_data(config, 1).train) == "20:0");
  config.class_names = {"9", "8"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("no training image has the label '8'"));
  config.class_names.clear();
  write_tar(folder.path("val.tar"), {{"v.png", png_of(2, 3, 30)}, {"v.cls", "7"}});
  CHECK_THAT(load_error(config), Contains("val.tar: v.png': the label '7' is that of no training image"));
  config.train = "t-{00..02}.tar";
  CHECK_THAT(load_error(config), Contains("no data file") && Contains("t-02.tar'"));
}

TEST_CASE("Patterns stand for the files that they name") {
  CHECK(shards_of("a.tar") == std::vector<std::string>{"a.tar"});
  CHECK(shards_of("a-{08..11}.tar") == std::vector<std::string>{"a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"});
  CHECK(shards_of("{0..1}/{1..2}") == std::vector<std::string>{"0/1", "0/2", "1/1", "1/2"});
  CHECK(shards_of("/nowhere/*.tar") == std::vector<std::string>{"/nowhere/*.tar"});
  for (const char* wrong : {"{2..1}", "{a..b}", "{..3}", "{-1..3}", "{0..999999999999}", "{0..9999999999999999999}"})
    CHECK_THROWS_AS(shards_of(wrong), DataError);
}

TEST_CASE("Links and names that lead elsewhere open no file") {
  const DataFolder folder;
  folder.write("secret.png", png_of(2, 3, 99));
  write_tar(folder.path("a.tar"), {{"link.png", "", folder.path("secret.png")},
                                   {"link.cls", "a"},
                                   {"../secret.png", png_of(2, 3, 10)},
                                   {"../secret.cls", "a"},
                                   {"/etc/passwd.png", png_of(2, 3, 20)},
                                   {"/etc/passwd.cls", "a"}});
  DataConfig config = tar_config(folder);
  CHECK_THAT(load_error(config), Contains("a.tar' has a label and no image of 'link'"));
  config.on_bad_sample = OnBadSample::skip;
  CHECK(shard_samples(*load_data(config, 1).train) == "10:0 20:0");
}

TEST_CASE("What a shard lacks is told with its member, or left out") {
  const DataFolder folder;
  DataConfig config = tar_config(folder);
  const Packed good = {"1.png", png_of(2, 3, 10)}, its_label = {"1.cls", "a"};
  const auto check = [&](const std::vector<Packed>& more, const std::string& message) {
    std::vector<Packed> members = {good, its_label};
    members.insert(members.end(), more.begin(), more.end());
    write_tar(folder.path("a.tar"), members);
    config.on_bad_sample = OnBadSample::error;
    CHECK_THAT(load_error(config), Contains(message));
    config.on_bad_sample = OnBadSample::skip;
    CHECK(shard_samples(*load_data(config, 1).train) == "10:0");
  };
  check({{"2.png", png_of(2, 3, 20)}}, "a.tar' has no label of '2.png': no 2.cls or 2.json");
  check({{"2.cls", "b"}}, "has a label and no image of '2'");
  check({{"2.png", "no image"}, {"2.cls", "a"}}, "a.tar: 2.png");
  check({{"2.png", png_of(2, 3, 20)}, {"2.cls", " \n"}}, "'2.cls' is an empty label");
  check({{"2.png", png_of(2, 3, 20)}, {"2.json", "[1]"}}, "'2.json' has no \"label\"");
  check({{"2.png", png_of(2, 3, 20)}, {"2.json", R"({"label": [1]})"}}, "is no name or number of a class");
  check({{"1.jpg", png_of(2, 3, 20)}}, "has a second image of a sample, '1.jpg'");
}

TEST_CASE("An archive that is compressed, cut off or none is refused with its name") {
  const DataFolder folder;
  write_tar(folder.path("a.tar"), {{"1.png", png_of(60, 70, 10)}, {"1.cls", "a"}});
  std::ifstream file(folder.path("a.tar"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  DataConfig config = tar_config(folder, "b.tar");
  folder.write("b.tar", gzipped(whole));
  CHECK_THAT(load_error(config), Contains("b.tar' is compressed") && Contains("gunzip --keep"));
  folder.write("b.tar", whole.substr(0, 700));
  CHECK_THAT(load_error(config), Contains("b.tar'"));
  folder.write("b.tar", std::string(5000, 'x'));
  CHECK_THAT(load_error(config), Contains("b.tar' "));
  folder.write("b.tar", "");
  CHECK_THAT(load_error(config), Contains("b.tar'"));

  // Cut off after it was looked at.
  folder.write("b.tar", whole);
  const LoadedData data = load_data(config, 1);
  folder.write("b.tar", whole.substr(0, 600));
  CHECK_THAT(error_of([&] { pixels_of(*data.train, 0); }), Contains("within its member '1.png'"));
}

TEST_CASE("Of a shard that is damaged or cut off what stands in front of that can be kept") {
  const DataFolder folder;
  write_tar(folder.path("a.tar"), {{"1.png", png_of(2, 3, 10)},
                                   {"1.cls", "0"},
                                   {"2.png", png_of(2, 3, 20)},
                                   {"2.cls", "1"},
                                   {"3.png", png_of(2, 3, 30)},
                                   {"3.cls", "1"}});
  const TarIndex index = read_tar_index(folder.path("a.tar"));
  REQUIRE(index.members.size() == 6);
  CHECK(index.damage.empty());
  const auto whole_bytes = std::filesystem::file_size(folder.path("a.tar"));
  const auto third_image = static_cast<std::streamoff>(index.members[4].place.offset);
  DataConfig config = tar_config(folder);
  const auto kept = [&] {
    config.on_bad_sample = OnBadSample::skip;
    const std::string samples = shard_samples(*load_data(config, 1).train);
    config.on_bad_sample = OnBadSample::error;
    return samples;
  };
  std::filesystem::resize_file(folder.path("a.tar"), static_cast<std::uintmax_t>(third_image) + 10);
  CHECK_THAT(load_error(config), Contains("ends within its member '3.png'") && Contains("data.on_bad_sample=skip"));
  CHECK(kept() == "10:0 20:1");
  // Zeros behind a header would be the archive's end; anything else where one belongs is damage.
  std::filesystem::resize_file(folder.path("a.tar"), static_cast<std::uintmax_t>(third_image) - 512);
  std::ofstream(folder.path("a.tar"), std::ios::binary | std::ios::app) << std::string(whole_bytes, 'x');
  CHECK_THAT(load_error(config), Contains("is damaged at offset") && Contains("behind its member '2.cls'"));
  CHECK(kept() == "10:0 20:1");
}

TEST_CASE("A plan needs no shards where classes, samples and the size are declared") {
  DataConfig config;
  config.type = DataType::tar;
  config.train = "/nowhere/{0..1}.tar";
  config.classes = 5;
  config.samples = 10;
  config.shape = {6, 8, 3};
  CHECK(describe_data(config, 1).num_outputs == 5);
}
