#include "prenorm/train/ranked_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace prenorm {
namespace {

// Tags: kinds of messages, and the stage. Those of ranks.cc are above them.
enum Kind : int { kGradient, kComplete, kLoss, kKinds };

int tag(Kind kind, std::size_t stage) { return static_cast<int>(stage) * kKinds + kind; }

// What of `range` lies in part `part` of the registry's gradients.
std::span<float> within(std::span<float> range, std::span<float> all, const ParameterChunks& parts,
                        int part) {
  const auto at = static_cast<std::size_t>(range.data() - all.data());
  const std::size_t from = std::max(at, parts.begin(part));
  const std::size_t to = std::min(at + range.size(), parts.end(part));
  return from < to ? all.subspan(from, to - from) : std::span<float>();
}

}  // namespace

void gather_moments(Ranks& ranks, AdamW& optimizer) {
  const bool here = ranks.rank() == 0;
  if (here) optimizer.assemble();
  gather_parts(ranks, here ? optimizer.all_first() : optimizer.own_first(), optimizer.chunks());
  gather_parts(ranks, here ? optimizer.all_second() : optimizer.own_second(), optimizer.chunks());
}

RankedStep::RankedStep(const Runtime& run, Gpt& model, Gpt::Workspace& work, Ranks& ranks,
                       Reduce reduce, std::vector<StepPiece> pieces)
    : run_(run),
      model_(model),
      work_(work),
      ranks_(ranks),
      reduce_(reduce),
      pieces_(std::move(pieces)),
      stages_(static_cast<std::size_t>(model.stages())),
      loss_in_(4),
      loss_out_(4) {
  const std::span<float> all = model_.parameters().grads();
  const auto in_registry = [&](std::span<float> part) {
    return part.data() >= all.data() && part.data() < all.data() + all.size();
  };
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].gradients = model_.stage_gradients(work_, static_cast<Index>(s));
    for (const auto& part : stages_[s].gradients) {
      if (in_registry(part)) stages_[s].complete.push_back(part);
    }
  }
  if (model_.config().tie_word_embeddings) {
    // Only finish_gradients() completes the token embedding: it is the first stage's first part.
    auto& first = stages_.front().complete;
    stages_.back().complete.push_back(first.front());
    first.erase(first.begin());
  }
}

int RankedStep::last_rank() const {
  return static_cast<int>((pieces_.size() - 1) % static_cast<std::size_t>(ranks_.size()));
}

void RankedStep::wait(Requests& requests) {
  for (const Ranks::Request request : requests) ranks_.wait(request);
  requests.clear();
}

RankedStep::Result RankedStep::take(AdamW& optimizer, double learning_rate, const Pass& pass) {
  micro_ = total_ = LossSum();
  if (reduce_ == Reduce::kExact) {
    travel(pass, optimizer.chunks());
  } else {
    reduce(pass, optimizer.chunks());
  }
  return finish(optimizer, learning_rate);
}

void RankedStep::travel(const Pass& pass, const ParameterChunks& parts) {
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  const auto size = static_cast<std::size_t>(ranks_.size());
  for (Stage& stage : stages_) stage.wanted = ranks_.rank() == last_rank();
  for (std::size_t p = rank; p < pieces_.size(); p += size) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].posted = p == 0 || size == 1;
    }
    post_free_receives();
    hooks_.before = [this, p](Index s) { receive_before(p, static_cast<std::size_t>(s)); };
    hooks_.after = [this, p, &parts](Index s) {
      send_after(p, static_cast<std::size_t>(s), parts);
    };
    micro_ = pass(pieces_[p], hooks_);
  }
  want_parts(stages_.size(), true, parts);
  wait(parts_);
  for (Stage& stage : stages_) wait(stage.leaving);
  ranks_.wait(loss_leaving_);
  total_ += micro_;
}

// The memory is free again once what was sent from it has left.
void RankedStep::post_receives(std::size_t s) {
  Stage& stage = stages_[s];
  if (stage.posted) return;
  wait(stage.leaving);
  const int from = (ranks_.rank() + ranks_.size() - 1) % ranks_.size();
  if (s == 0) {
    loss_arriving_ = ranks_.receive(message_of(std::span<double>(loss_in_)), from, tag(kLoss, s));
  }
  for (const auto part : stage.gradients) {
    stage.arriving.push_back(ranks_.receive(message_of(part), from, tag(kGradient, s)));
  }
  stage.posted = true;
}

bool RankedStep::left(const Requests& requests) const {
  return std::ranges::all_of(requests, [this](Ranks::Request sent) { return ranks_.done(sent); });
}

// As early as can be, so that gradients arrive while this rank computes.
void RankedStep::post_free_receives() {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (!stages_[s].posted && left(stages_[s].leaving)) post_receives(s);
  }
}

void RankedStep::receive_before(std::size_t piece, std::size_t s) {
  post_receives(s);
  post_free_receives();
  wait(stages_[s].arriving);
  if (s > 0) return;
  if (piece > 0 && ranks_.size() > 1) {
    ranks_.wait(loss_arriving_);
    total_ = {loss_in_[0], static_cast<Index>(loss_in_[1])};
    micro_ = {loss_in_[2], static_cast<Index>(loss_in_[3])};
  }
  if (pieces_[piece].begins_micro_batch) {
    total_ += micro_;
    micro_ = LossSum();
  }
  hooks_.loss_before = micro_;
}

void RankedStep::send_after(std::size_t piece, std::size_t s, const ParameterChunks& parts) {
  Stage& stage = stages_[s];
  if (piece + 1 == pieces_.size()) {
    hand_out(s, parts);
    return;
  }
  if (ranks_.size() == 1) return;
  const int to = (ranks_.rank() + 1) % ranks_.size();
  if (s == 0) {
    ranks_.wait(loss_leaving_);
    const LossSum micro = hooks_.loss;
    loss_out_ = {total_.loss, static_cast<double>(total_.count), micro.loss,
                 static_cast<double>(micro.count)};
    loss_leaving_ = ranks_.send(message_of(std::span<double>(loss_out_)), to, tag(kLoss, s));
  }
  for (const auto part : stage.gradients) {
    stage.leaving.push_back(ranks_.send(message_of(part), to, tag(kGradient, s)));
  }
  const bool last_of_mine = piece + static_cast<std::size_t>(ranks_.size()) >= pieces_.size();
  if (last_of_mine) want_parts(s, false, parts);
}

// What stage s has completed, to its owners.
void RankedStep::hand_out(std::size_t s, const ParameterChunks& parts) {
  if (s + 1 == stages_.size()) model_.finish_gradients(run_, work_);
  for (const auto range : stages_[s].complete) {
    for (int owner = 0; owner < ranks_.size(); ++owner) {
      const auto part = within(range, model_.parameters().grads(), parts, owner);
      if (part.empty() || owner == ranks_.rank()) continue;
      parts_.push_back(ranks_.send(message_of(part), owner, tag(kComplete, s)));
    }
  }
}

// Receives for this rank's part of the stages before `end`, where the memory is free or `wait`.
void RankedStep::want_parts(std::size_t end, bool wait_for_memory, const ParameterChunks& parts) {
  for (std::size_t s = 0; s < end; ++s) {
    Stage& stage = stages_[s];
    if (stage.wanted) continue;
    // A tied embedding is complete at the end and was sent on at the beginning.
    if (wait_for_memory) {
      wait(stage.leaving);
      wait(stages_.front().leaving);
    } else if (!left(stage.leaving) || !left(stages_.front().leaving)) {
      return;
    }
    for (const auto range : stage.complete) {
      const auto part = within(range, model_.parameters().grads(), parts, ranks_.rank());
      if (part.empty()) continue;
      parts_.push_back(ranks_.receive(message_of(part), last_rank(), tag(kComplete, s)));
    }
    stage.wanted = true;
  }
}

// Each rank's own sums, and the sum over ranks of each stage as soon as all have it.
void RankedStep::reduce(const Pass& pass, const ParameterChunks& parts) {
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  const auto size = static_cast<std::size_t>(ranks_.size());
  for (std::size_t p = rank; p < pieces_.size(); p += size) {
    const bool last_of_mine = p + size >= pieces_.size();
    hooks_.before = [](Index) {};
    hooks_.after = [this, last_of_mine, &parts](Index s) {
      if (last_of_mine) sum_parts(static_cast<std::size_t>(s), parts);
    };
    hooks_.loss_before = LossSum();
    total_ += pass(pieces_[p], hooks_);
  }
  if (rank >= pieces_.size()) {  // nothing to add, but the others count on it
    for (std::size_t s = 0; s < stages_.size(); ++s) sum_parts(s, parts);
  }
  wait(parts_);
}

void RankedStep::sum_parts(std::size_t s, const ParameterChunks& parts) {
  if (s + 1 == stages_.size()) model_.finish_gradients(run_, work_);
  for (const auto range : stages_[s].complete) {
    for (int owner = 0; owner < ranks_.size(); ++owner) {
      const auto part = within(range, model_.parameters().grads(), parts, owner);
      if (!part.empty()) parts_.push_back(ranks_.sum_at(part, owner));
    }
  }
}

// Loss and norm are known to all after one exchange, so all decide alike.
RankedStep::Result RankedStep::finish(AdamW& optimizer, double learning_rate) {
  constexpr std::size_t kLossNumbers = 2;
  const ParameterChunks& parts = optimizer.chunks();
  const bool knows_loss = reduce_ == Reduce::kFast || ranks_.rank() == last_rank();
  std::vector<double> own(kLossNumbers + parts.count(ranks_.rank()));
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks_.size(); ++r) counts.push_back(kLossNumbers + parts.count(r));
  if (knows_loss) {
    own[0] = total_.loss;
    own[1] = static_cast<double>(total_.count);
  }
  optimizer.squares(run_, std::span<double>(own).subspan(kLossNumbers));
  const std::vector<double> all = exchange(ranks_, own, counts);
  LossSum loss;
  std::vector<double> squares;
  for (std::size_t r = 0, at = 0; r < counts.size(); at += counts[r++]) {
    loss += {all[at], static_cast<Index>(all[at + 1])};
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(at + kLossNumbers);
    squares.insert(
        squares.end(), from,
        from + static_cast<std::ptrdiff_t>(counts[r]) - static_cast<std::ptrdiff_t>(kLossNumbers));
  }
  Result result{.loss = loss.mean(), .update = {}};
  if (std::isfinite(result.loss)) {
    result.update = optimizer.update(run_, learning_rate, squares);
    if (result.update.applied) share_parts(ranks_, model_.parameters().values(), parts);
  }
  model_.clear_gradients(run_, work_);
  return result;
}

}  // namespace prenorm
