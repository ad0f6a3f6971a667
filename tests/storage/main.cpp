// The tests of the store; started by itself, also a process that a test kills.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/storage/support.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  // A role uses the same language as the tests, outside of any test case.
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler([](const doctest::AssertData& assertion) {
    if (!assertion.m_failed) return;
    std::fprintf(stderr, "child: %s:%d: %s\n", assertion.m_file, assertion.m_line,
                 assertion.m_expr);
    std::_Exit(3);
  });
  kvstrata::storage::testing::play_child_role();
  context.setAssertHandler(nullptr);
  return context.run();
}
