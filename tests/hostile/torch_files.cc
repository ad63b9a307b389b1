// Malformed and hostile .pt files: the archive, the pickle, the tensors inside.
#include <utility>

#include "tests/formats/torch_bytes.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

class Table : public HostileTable {
 public:
  Table() : HostileTable("torch_", Opener::kTensors) {}

  void add(const std::string& name, const std::string& bytes, const std::string& expected,
           Opener opener = Opener::kTensors) {
    add_file(name, "x.pt", bytes, expected).opener = opener;
  }
  // A file whose value is these opcodes, with one storage of six floats.
  void value(const std::string& name, const std::string& opcodes, const std::string& expected) {
    add(name, torch_file(opcodes, {std::string(24, '\0')}), expected);
  }
  void tensor(const std::string& name, const TorchTensor& t, const std::string& expected) {
    value(name, pickled_dict({{"w", pickled(t)}}), expected);
  }
};

void add_archives(Table& table) {
  table.add("of_the_form_before_1_6", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
            "its older form");
  table.add("that_is_no_archive", "just some text that is long enough", "its end record");
  table.add("that_is_a_git_lfs_pointer",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "Git LFS pointer");
  table.add("that_is_a_web_page", "<!DOCTYPE html><html><body>404</body></html>", "a page of HTML");
  table.add("without_data_pkl", zip_file({{"a/version", "3\n"}}), "a member data.pkl");
  table.add("with_two_data_pkl", zip_file({{"a/data.pkl", "N."}, {"b/data.pkl", "N."}}),
            "one data.pkl");
  table.add("that_is_a_program", zip_file({{"a/data.pkl", "N."}, {"a/constants.pkl", ""}}),
            "a TorchScript program");
  table.add("deflated", zip_file({{"a/data.pkl", "N.", true}}), "stored members");
  table.add("big_endian", zip_file({{"a/data.pkl", "N."}, {"a/byteorder", "big"}}),
            "byte order little");
}

void add_code(Table& table) {
  table.value("calls_os_system", "cos\nsystem\n" + pickled("ls") + "\x85R",
              "'os.system', which is not run");
  table.value("calls_eval_by_stack",
              pickled("builtins") + pickled("eval") + "\x93" + pickled("1") + "\x85R",
              "'builtins.eval', which is not run");
  table.value("calls_a_name_with_a_dot", "ctorch\n_utils._rebuild_tensor_v2.__globals__\n)R",
              "which is not run");
  table.value("rebuilds_with_numpy", "cnumpy.core.multiarray\n_reconstruct\n)R",
              "which is not run");
  table.value("loads_a_module", "ctorch.nn.modules.linear\nLinear\n)\x81", "which is not run");
  table.value("uses_inst", "(" + pickled("ls") + "ios\nsystem\n", "opcode 105");
  table.value("uses_obj", "(cos\nsystem\n" + pickled("ls") + "o", "which is not run");
  table.value("uses_newobj", "ccollections\nOrderedDict\n)\x81", "opcode 129");
  table.value("uses_an_extension", "\x82\x01", "opcode 130");
  table.value("sets_attributes_of_no_dict", "]}b", "a dict to add to");
  table.value("calls_a_string", pickled("x") + ")R", "a name and a tuple");
  table.value("gives_arguments_to_a_dict", "ccollections\nOrderedDict\n" + pickled("x") + "\x85R",
              "an OrderedDict that begins empty");
}

void add_machine(Table& table) {
  const auto raw = [&](const std::string& name, const std::string& pickle,
                       const std::string& expected) {
    table.add(name, zip_file({{"a/data.pkl", pickle}}), expected);
  };
  raw("pickle_empty", "", "1 bytes");
  raw("pickle_without_its_end", "\x80\x02N", "the end of the pickle");
  raw("pickle_with_more_behind", "N.N", "the end of the pickle");
  raw("pickle_with_two_values", "NN.", "one value at the end");
  raw("pickle_of_a_newer_protocol", "\x80\x09N.", "protocol 5 or older");
  raw("pickle_of_unknown_opcodes", "\xFF.", "opcode 255");
  raw("pickle_that_pops_nothing", "0.", "a mark on the stack");
  raw("pickle_without_a_mark", "t.", "a mark on the stack");
  raw("pickle_that_gets_what_was_not_put", "h\x07.", "a value put aside before");
  raw("text_of_4_GiB", "X\xFF\xFF\xFF\xFFx.", "4294967295 bytes");
  raw("text_of_2_to_the_63", "\x8d" + little_endian(1ull << 63) + "x.",
      "9223372036854775808 bytes");
  raw("integer_of_255_bytes", "\x8a\xFFx.", "whole numbers of 64 bits");
  raw("text_not_utf8", std::string("X\x02\0\0\0\xC3\x28.", 8), "a string in UTF-8");
  raw("name_without_its_line", "cos", "a line");
  raw("dict_of_odd_length", "}(NNNu.", "keys with values");
  raw("deep_tuples", "N" + std::string(1000, '\x85') + ".", "values at most 32 deep");
  raw("a_list_in_itself", "]q\1h\1a.", "values at most 32 deep");
  raw("a_million_nones", "](" + std::string(1'000'000, 'N') + "e.", "at most 262,144 values");
  raw(
      "lists_that_multiply",
      [] {
        std::string bomb = "]q";
        bomb += '\0';
        for (int level = 0; level < 20; ++level) {
          const auto key = static_cast<char>(level);
          bomb += std::string("0](h") + key + "h" + key + "h" + key + "h" + key + "eq";
          bomb += static_cast<char>(level + 1);
        }
        return bomb + ".";
      }(),
      "at most 262,144 values");
  raw(
      "keys_that_multiply",
      [] {
        std::string bomb = "Nq";
        bomb += '\0';
        for (int level = 0; level < 6; ++level) {
          bomb += "0}(";
          for (int i = 0; i < 8; ++i) {
            bomb += pickled(std::string(400, static_cast<char>('a' + i))) + "h" +
                    static_cast<char>(level);
          }
          bomb += "uq";
          bomb += static_cast<char>(level + 1);
        }
        return bomb + ".";
      }(),
      "shorter names");
  raw("key_that_is_a_tuple", "}(N\x85Nu.", "keys that are strings or whole numbers");
  raw("key_empty", "}(" + pickled("") + "Nu.", "keys that are not empty");
  raw("key_with_nul", "}(" + pickled(std::string("a\0b", 3)) + "Nu.", "hold no NUL");
  raw("key_twice", "}(" + pickled("a") + "N" + pickled("a") + "Nu.", "each name once");
}

TorchTensor six(std::vector<int> shape, std::vector<int> strides, int offset = 0) {
  return {
      .elements = 6, .offset = offset, .shape = std::move(shape), .strides = std::move(strides)};
}

void add_tensors(Table& table) {
  table.tensor("tensor_longer_than_its_storage", six({7}, {1}), "a tensor inside its storage");
  table.tensor("tensor_beyond_its_storage", six({2}, {1}, 5), "a tensor inside its storage");
  table.tensor("offset_of_2_to_the_31", six({2}, {1}, 2147483647), "a tensor inside its storage");
  table.tensor("offset_negative", six({2}, {1}, -1), "a tensor");
  table.tensor("dimension_negative", six({-2}, {1}), "sizes and strides from 0");
  table.tensor("stride_negative", six({2}, {-1}, 1), "sizes and strides from 0");
  table.tensor("stride_that_leads_out", six({2, 2}, {5, 1}), "a tensor inside its storage");
  table.tensor("shape_whose_product_wraps", six({2147483647, 2147483647, 2147483647}, {0, 0, 0}),
               "a tensor inside its storage");
  table.tensor("one_number_two_billion_times", six({2147483647}, {0}), "tensors of at most");
  table.tensor("strides_of_another_length", six({2}, {}), "a stride for each axis");
  table.tensor("shape_of_65_axes", six(std::vector<int>(65, 1), std::vector<int>(65, 1)),
               "at most 64 axes");
  TorchTensor odd = six({6}, {1});
  odd.elements = 5;
  table.tensor("storage_of_another_size", odd, "5 elements of torch.FloatStorage");
  odd.elements = -1;
  table.tensor("storage_of_negative_size", odd, "a storage's type, key and size");
  odd = six({6}, {1});
  odd.key = "../../a/data/0";
  table.tensor("storage_outside_of_the_archive", odd, "a member 'data/../../a/data/0'");
  odd = six({6}, {1});
  odd.type = "QInt8Storage";
  table.tensor("storage_of_unknown_type", odd, "which is not run");
  table.value("a_storage_alone",
              "(" + pickled("storage") + "ctorch\nFloatStorage\n" + pickled("0") + pickled("cpu") +
                  pickled(std::int32_t{6}) + "tQ",
              "a storage alone");
  table.value("a_tensor_of_no_arguments", "ctorch._utils\n_rebuild_tensor_v2\n)R", "a tensor");
  table.add(
      "a_thousand_tensors_of_one_storage",
      [] {
        TorchTensor whole{.elements = 1 << 16, .shape = {1 << 16}, .strides = {1}};
        std::vector<std::pair<std::string, std::string>> items;
        for (int i = 0; i < 1000; ++i) items.emplace_back("t" + std::to_string(i), pickled(whole));
        return torch_file(pickled_dict(items), {std::string(4 << 16, '\0')});
      }(),
      "tensors of at most");
}

void add_checkpoints(Table& table) {
  const auto source = [&](const std::string& name, const std::string& value,
                          const std::string& expected) {
    table.add(name, torch_file(value, {std::string(24, '\0')}), expected, Opener::kSource);
  };
  source("checkpoint_without_tensors", pickled_dict({}), "of GPT-2");
  source("checkpoint_of_one_number", pickled(std::int32_t{7}), "of GPT-2");
  source("checkpoint_of_a_scalar_embedding",
         pickled_dict({{"transformer.h.0.attn.c_attn.weight", pickled(six({}, {}))}}), "a matrix");
  source("checkpoint_of_arguments_alone",
         pickled_dict({{"model_args", pickled_dict({{"n_layer", pickled(std::int32_t{-1})}})}}),
         "of GPT-2");
}

}  // namespace

std::vector<HostileFile> torch_files() {
  Table table;
  add_archives(table);
  add_code(table);
  add_machine(table);
  add_tensors(table);
  add_checkpoints(table);
  return table.take();
}

}  // namespace prenorm::hostile
