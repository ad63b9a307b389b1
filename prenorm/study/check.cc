#include "prenorm/study/check.h"

#include <algorithm>
#include <iterator>

#include "prenorm/study/check_bits.h"
#include "prenorm/study/check_blocks.h"
#include "prenorm/study/check_gradients.h"

namespace prenorm {

std::vector<Property> check_model(const Runtime& run, const Gpt& model,
                                  const CheckOptions& options) {
  const CheckContext context{run, model, options.seams, options.seed, options.on_stage};
  std::vector<Property> all;
  for (const auto part : {check_bits, check_blocks, check_model_gradients}) {
    std::ranges::move(part(context), std::back_inserter(all));
  }
  return all;
}

bool all_passed(const std::vector<Property>& properties) {
  return std::ranges::all_of(properties, &Property::passed);
}

}  // namespace prenorm
