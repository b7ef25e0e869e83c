// SPDX-License-Identifier: Apache-2.0
//
// bench/peers: how fast Tandem multiplies, beside the libraries that one could use instead and the
// ceilings of the machine, all in one process and in turns. docs/performance.md says how to read
// its tables. peer.h is the place to start reading, shapes_section.cc the main part.
#include <cstdio>
#include <exception>

#include "bench/peers/session.h"

namespace {

int run(int argc, char** argv) {
  namespace bench = tandem::bench;
  bench::Options options;
  if (const int code = bench::parse(argc, argv, options); code >= 0) return code;
  bench::Session session(options);
  session.introduce();
  if (options.has_section("shapes")) bench::measure_shapes(session);
  if (options.has_section("floors")) bench::measure_floors(session);
  if (options.has_section("packing")) bench::measure_packing(session);
  if (options.has_section("scaling")) bench::measure_scaling(session);
  if (!options.json.empty() && !session.report().write(options.json)) {
    std::fprintf(stderr, "peers: cannot write '%s'\n", options.json.c_str());
    return 1;
  }
  return session.failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peers: %s\n", error.what());
    return 1;
  }
}
