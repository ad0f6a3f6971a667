// doctest itself: compiled once for all test programs, since it takes longer than most tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
