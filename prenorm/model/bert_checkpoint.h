// A BERT from a Hugging Face folder: config.json and model.safetensors.
//
//   const std::unique_ptr<Bert> model = load_bert("all-MiniLM-L6-v2");
#pragma once
#include <filesystem>
#include <memory>

#include "prenorm/model/bert.h"

namespace prenorm {

// Names may have the prefix "bert."; the heads of BertForMaskedLM and the like (cls.*,
// classifier.*, qa_outputs.*) and the buffers embeddings.position_ids and embeddings.token_type_ids
// are passed over; LayerNorm.gamma and .beta are weight and bias. The pooler may be absent. F32,
// F16, BF16 and F64 are converted. Throws IoError; FormatError for a config that is not supported,
// and one that lists all tensors that are missing, unexpected or of another shape.
std::unique_ptr<Bert> load_bert(const std::filesystem::path& folder);

}  // namespace prenorm
