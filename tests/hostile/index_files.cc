// Malformed indexes of weights in several files, and shards that are not what the index says.
#include <sys/stat.h>

#include <utility>

#include "prenorm/formats/safetensors.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

class Table : public HostileTable {
 public:
  Table() : HostileTable("index_", Opener::kIndex) {}

  HostileFile& add(const std::string& name, const std::string& index, const std::string& expected) {
    HostileFile& file = add_folder(name, valid_index(), kIndex, expected);
    file.opened = kIndex;
    if (!index.empty()) file.files[kIndex] = index;
    return file;
  }
  HostileFile& map(const std::string& name, const std::string& map, const std::string& expected) {
    return add(name, "{\"weight_map\":" + map + "}", expected);
  }
  // The valid index, beside which a file is something else.
  HostileFile& shard(const std::string& name, const std::string& expected) {
    HostileFile& file = add(name, "", expected);
    file.culprit = "1.safetensors";
    return file;
  }
};

void add_maps(Table& table) {
  table.add("that_is_no_json", "weights", "expected JSON");
  table.add("that_is_a_list", "[]", "an object");
  table.add("without_a_map", "{\"metadata\":{}}", "weight_map");
  table.add("cut_off", "{\"weight_map\":{\"a\":\"1.safe", "expected JSON");
  table.add("nested_too_deep", "{\"weight_map\":" + std::string(100'000, '['), "64 levels");
  table.map("map_that_is_a_list", "[\"1.safetensors\"]", "weight_map, an object");
  table.map("map_empty", "{}", "weight_map, an object");
  table.map("name_that_is_a_number", "{\"a\":1}", "a file name for 'a'");
  table.map("tensor_twice", R"({"a":"1.safetensors","a":"2.safetensors"})", "'a' twice");
  table.map("tensor_without_a_name", R"({"":"1.safetensors"})", "tensors with names");
  table.map("tensor_name_with_nul", R"({"a\u0000":"1.safetensors"})", "tensors with names");
  for (const auto& [name, file] :
       {std::pair("names_the_folder_above", "../x"),
        std::pair("names_an_absolute_path", "/etc/passwd"),
        std::pair("names_a_subfolder", "sub/1.safetensors"), std::pair("names_its_folder", "."),
        std::pair("names_its_parent", ".."), std::pair("names_nothing", ""),
        std::pair("name_with_nul", "1.safetensors\\u0000.txt"),
        std::pair("name_with_a_backslash", "..\\\\x"),
        std::pair("name_with_a_newline", "x\\n  y.safetensors")}) {
    table.map(name, "{\"a\":\"" + std::string(file) + "\"}", "plain file names in weight_map");
  }
  table.map("name_of_a_thousand_bytes", "{\"a\":\"" + std::string(1000, 'x') + "\"}",
            "plain file names in weight_map");
  std::string many = "{";
  for (int i = 0; i < 1200; ++i) {
    const std::string n = std::to_string(i);
    many += (i > 0 ? ",\"t" : "\"t") + n + "\":\"" + n + ".safetensors\"";
  }
  HostileFile& file = table.map("of_more_than_a_thousand_files", many + "}", "at most 1000 files");
  for (int i = 0; i < 1200; ++i) {
    const std::vector<float> one = {1};
    const std::string n = std::to_string(i);
    file.files[n + ".safetensors"] = serialize_safetensors({tensor("t" + n, {1}, std::span(one))});
  }
}

void add_shards(Table& table) {
  table.shard("shard_missing", "no such file").files.erase("1.safetensors");
  table.shard("shard_damaged", "the file is incomplete").files["1.safetensors"].resize(40);
  table.map("tensor_missing", R"({"a":"1.safetensors","b":"2.safetensors","c":"1.safetensors"})",
            "1 missing");
  table.map("tensor_not_in_the_index", R"({"b":"2.safetensors","a":"2.safetensors"})", "1 missing");
  table.add("tensor_in_two_files", "", "1 unexpected").files["2.safetensors"] = [] {
    const std::vector<float> values = {1, 2};
    return serialize_safetensors(
        {tensor("a", {1}, std::span(values).first(1)), tensor("b", {2}, std::span(values))});
  }();

  HostileFile* file = &table.add("shard_that_is_a_link_out", "", "a link that leads out");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("/etc/passwd", folder / "1.safetensors");
  };
  file = &table.add("shard_behind_two_links_out", "", "a link that leads out");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("..", folder / "up");
    std::filesystem::create_symlink("up/../../etc/passwd", folder / "1.safetensors");
    std::filesystem::create_symlink("/etc/passwd", folder / "2.safetensors.real");
    std::filesystem::remove(folder / "1.safetensors");
    std::filesystem::create_symlink("2.safetensors.real", folder / "1.safetensors");
  };
  file = &table.add("shard_that_is_a_device", "", "a link that leads out");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("/dev/zero", folder / "1.safetensors");
  };
  file = &table.shard("shard_that_is_a_pipe", "a pipe or a device");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    mkfifo((folder / "1.safetensors").c_str(), 0600);
  };
  file = &table.shard("shard_that_is_a_folder", "a folder");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_directory(folder / "1.safetensors");
  };
  file = &table.shard("shard_that_is_a_link_to_itself", "links");
  file->files.erase("1.safetensors");
  file->arrange = [](const std::filesystem::path& folder) {
    std::filesystem::create_symlink("1.safetensors", folder / "1.safetensors");
  };
}

}  // namespace

std::vector<HostileFile> index_files() {
  Table table;
  add_maps(table);
  add_shards(table);
  return table.take();
}

}  // namespace prenorm::hostile
