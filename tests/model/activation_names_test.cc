#include "prenorm/model/activation_names.h"

#include <gtest/gtest.h>

namespace prenorm {
namespace {

TEST(ActivationNames, written_names_read_back) {
  for (Activation act : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    EXPECT_EQ(activation_from_hugging_face(hugging_face_activation(act)), act);
  }
  EXPECT_EQ(hugging_face_activation(Activation::kGeluTanh), "gelu_new");
}

TEST(ActivationNames, other_spellings_are_read_and_other_functions_are_not) {
  EXPECT_EQ(activation_from_hugging_face("gelu_pytorch_tanh"), Activation::kGeluTanh);
  EXPECT_EQ(activation_from_hugging_face("gelu_fast"), Activation::kGeluTanh);
  EXPECT_EQ(activation_from_hugging_face("gelu_python"), Activation::kGelu);
  EXPECT_EQ(activation_from_hugging_face("silu"), std::nullopt);
  EXPECT_EQ(activation_from_hugging_face("gelu-tanh"), std::nullopt);
}

}  // namespace
}  // namespace prenorm
