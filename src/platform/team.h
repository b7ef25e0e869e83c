// SPDX-License-Identifier: Apache-2.0
//
// Team: threads that live as long as an operator and sleep between its calls. start() hands each
// of the first `count` members the same job with its own index; join() returns when all are done.
#pragma once

#include <functional>
#include <memory>

#include "platform/park.h"
#include "tandem/status.h"

namespace tandem::platform {

class Team {
 public:
  /// Starts `size` threads (0 is allowed). `spin` bounds how long an idle member polls before it
  /// parks. Errors: kOutOfMemory / kIo when the system refuses a thread.
  static Result<std::unique_ptr<Team>> create(int size, std::string_view name, Spin spin);
  virtual ~Team() = default;  ///< waits for a running job, ends the threads

  virtual int size() const = 0;
  /// Runs job(0) … job(count - 1) on the members. The job must not throw. One job at a time.
  virtual void start(int count, std::function<void(int)> job) = 0;
  /// Returns when every member of the last start() has finished; at once when there was none.
  virtual void join() = 0;
};

}  // namespace tandem::platform
