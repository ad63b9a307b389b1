#include "prenorm/train/options_fields.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace prenorm {
namespace {

TEST(OptionsFields, names_every_field_once) {
  TrainOptions options;
  // A new field breaks this line: it belongs into visit_train_options() too.
  const auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28] = options;
  const std::set<const void*> fields{&f1,  &f2,  &f3,  &f4,  &f5,  &f6,  &f7,  &f8,  &f9,  &f10,
                                     &f11, &f12, &f13, &f14, &f15, &f16, &f17, &f18, &f19, &f20,
                                     &f21, &f22, &f23, &f24, &f25, &f26, &f27, &f28};
  std::set<const void*> visited;
  std::set<std::string> names;
  visit_train_options(options, [&](const char* name, const auto& field, OnResume) {
    visited.insert(&field);
    names.insert(name);
  });
  EXPECT_EQ(visited, fields);
  EXPECT_EQ(names.size(), fields.size());
}

TEST(OptionsFields, what_decides_the_windows_and_the_bits_of_a_step_must_stay) {
  std::set<std::string> stay;
  const TrainOptions options;
  visit_train_options(options, [&](const char* name, const auto&, OnResume rule) {
    if (rule == OnResume::kMustStay) stay.insert(name);
  });
  EXPECT_EQ(stay, (std::set<std::string>{"batch_size", "gradient_accumulation_steps", "seed",
                                         "init", "val_fraction", "dtype"}));
}

}  // namespace
}  // namespace prenorm
