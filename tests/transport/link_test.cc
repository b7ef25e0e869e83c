// SPDX-License-Identifier: Apache-2.0
//
// parse_link() and to_string(): what users write on the command line.
#include <gmock/gmock.h>

#include "tandem/transport.h"

namespace tandem {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

Link parsed(std::string_view text) {
  auto link = parse_link(text);
  EXPECT_TRUE(link.ok()) << link.status().message();
  return link.ok() ? *link : Link{};
}

TEST(ParseLink, Bandwidths) {
  EXPECT_DOUBLE_EQ(parsed("1Gbit/s,50us").bytes_per_second, 125e6);
  EXPECT_DOUBLE_EQ(parsed("800MB/s,1ms").bytes_per_second, 800e6);
  EXPECT_DOUBLE_EQ(parsed("2.5Gbit/s").bytes_per_second, 312.5e6);
  EXPECT_DOUBLE_EQ(parsed("8bit/s").bytes_per_second, 1);
  EXPECT_DOUBLE_EQ(parsed("100kB/s").bytes_per_second, 1e5);
}

TEST(ParseLink, Times) {
  EXPECT_EQ(parsed("1Gbit/s").latency, Link{}.latency);
  EXPECT_EQ(parsed("1Gbit/s,0us").latency, nanoseconds(0));
  EXPECT_EQ(parsed("1Gbit/s,750ns").latency, nanoseconds(750));
  EXPECT_EQ(parsed("1Gbit/s,1.5ms").latency, nanoseconds(1'500'000));
  EXPECT_EQ(parsed("1Gbit/s,2s").latency, nanoseconds(2'000'000'000));
}

TEST(ParseLink, Options) {
  const Link link = parsed("800MB/s,1ms,jitter=200us,seed=7");
  EXPECT_EQ(link.jitter, nanoseconds(200'000));
  EXPECT_EQ(link.seed, 7u);
  EXPECT_EQ(parsed("1GB/s,seed=3,jitter=1ms").seed, 3u);
  EXPECT_EQ(parsed("1GB/s,jitter=1ms").latency, Link{}.latency);
}

TEST(ParseLink, ErrorsNameTheCulprit) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "''"},
      {"fast", "'fast'"},
      {"1Gbit", "'1Gbit'"},
      {"-1Gbit/s", "'-1Gbit/s'"},
      {"0Gbit/s", "'0Gbit/s'"},
      {"nanB/s", "'nanB/s'"},
      {"infB/s", "'infB/s'"},
      {"1Gbit/s,50", "'50'"},
      {"1Gbit/s,-5us", "'-5us'"},
      {"1Gbit/s,2000000s", "'2000000s'"},
      {"1Gbit/s,1us,1us", "'1us'"},
      {"1Gbit/s,1us,jitter=x", "'jitter=x'"},
      {"1Gbit/s,1us,seed=-1", "'seed=-1'"},
      {"1Gbit/s,1us,seed=1x", "'seed=1x'"},
      {"1Gbit/s,,seed=1", "''"},
  };
  for (const auto& [text, culprit] : cases) {
    auto link = parse_link(text);
    ASSERT_FALSE(link.ok()) << text;
    EXPECT_EQ(link.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(link.status().message(), HasSubstr(culprit)) << text;
    EXPECT_THAT(link.status().message(), HasSubstr("1Gbit/s,50us")) << text;
  }
}

TEST(LinkText, ReadsBack) {
  for (const char* text : {"1Gbit/s,50us", "6.4Gbit/s,1ms,jitter=200us,seed=7", "8bit/s,0us",
                           "10kbit/s,2s", "25Mbit/s,123ns,jitter=1ns"}) {
    const Link link = parsed(text);
    EXPECT_EQ(to_string(link), text);
    const Link again = parsed(to_string(link));
    EXPECT_DOUBLE_EQ(again.bytes_per_second, link.bytes_per_second);
    EXPECT_EQ(again.latency, link.latency);
    EXPECT_EQ(again.jitter, link.jitter);
    EXPECT_EQ(again.seed, link.seed);
  }
}

TEST(TransportKind, HasNames) {
  EXPECT_EQ(name(TransportKind::shm), "shm");
  EXPECT_EQ(name(TransportKind::sim), "sim");
  EXPECT_EQ(name(TransportKind::mpi), "mpi");
}

}  // namespace
}  // namespace tandem
