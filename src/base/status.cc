// SPDX-License-Identifier: Apache-2.0
//
// Names of status codes.
#include "tandem/status.h"

namespace tandem {

std::string_view name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kTimeout:
      return "timeout";
    case StatusCode::kPeerLost:
      return "peer lost";
    case StatusCode::kOutOfMemory:
      return "out of memory";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kIo:
      return "io";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace tandem
