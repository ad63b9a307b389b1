#include "prenorm/cli/failure.h"

#include <new>
#include <system_error>

#include "prenorm/base/error.h"
#include "prenorm/cli/output.h"
#include "prenorm/cli/verb.h"

namespace prenorm::cli {

Failure current_failure() noexcept {
  try {
    throw;
  } catch (const OutputClosed&) {
    return {kDone, ""};
  } catch (const ConfigError& error) {
    return {kUsage, error.what()};
  } catch (const UnsupportedCpu& error) {
    return {kUsage, error.what()};
  } catch (const NumericalError& error) {
    return {kNumerical, error.what()};
  } catch (const Error& error) {
    return {kBadInput, error.what()};
  } catch (const std::bad_alloc&) {
    return {kBadInput,
            "memory: expected enough for the files, model and batch given, found none left"};
  } catch (const std::system_error& error) {  // a thread that could not be started, for one
    return {kBadInput, std::string("system: expected what this needs, found: ") + error.what()};
  } catch (const std::exception& error) {
    return {kBadInput, std::string("internal error: ") + error.what()};
  } catch (...) {
    return {kBadInput, "internal error"};
  }
}

}  // namespace prenorm::cli
