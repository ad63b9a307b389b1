// What `prenorm train` tells while it runs and when it is done: lines on standard error, lines of
// metrics.jsonl, and the result on standard output.
//
//   TrainNotices notices(streams.log);
//   notices.attach(callbacks, metrics);   // metrics may be opened later
//   ... train ...
//   notices.finish();
//   tell_result(result, "RUN", json, streams);
#pragma once
#include <optional>
#include <string>

#include "prenorm/cli/output.h"
#include "prenorm/cli/verb.h"
#include "prenorm/train/metrics.h"
#include "prenorm/train/trainer.h"

namespace prenorm::cli {

class TrainNotices {
 public:
  explicit TrainNotices(Output& log) : log_(log), status_(log) {}

  // Sets the callbacks that tell something; both arguments must outlive their calls.
  void attach(TrainCallbacks& callbacks, std::optional<MetricsFile>& metrics);
  void notice(const std::string& text);
  void finish() { status_.finish(); }

 private:
  void non_finite(const NonFinite& found);

  Output& log_;
  StatusLine status_;
};

// What computes products in bfloat16 here, and in which order of sums; a notice where float32 would
// be faster.
std::string products_lines(Isa isa, Products products);

// With `json` one object, else lines for people.
void tell_result(const TrainResult& result, const std::string& folder, bool json,
                 const Streams& streams);

}  // namespace prenorm::cli
