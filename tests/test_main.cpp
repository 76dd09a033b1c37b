#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cstdlib>

namespace {

/// Tests neither read nor write what this user's plans have kept (Note [Answers that are kept] in
/// cuda/library/known_scratch.h); nor do the processes that they start.
[[maybe_unused]] const bool nothing_is_kept = setenv("TRAINER_SCRATCH_CACHE", "off", 1) == 0;

}  // namespace
