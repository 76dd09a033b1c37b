#include "engine/report/text/change_text.h"

#include <catch2/catch.hpp>

using namespace trainer;

namespace {

std::string text_of(std::vector<ChangePart> parts) {
  Change change;
  change.set = {"a=1"};
  change.parts = std::move(parts);
  return change_text(change);
}

}  // namespace

TEST_CASE("a change is told part by part, and as it is where it sets nothing") {
  CHECK(text_of({Effect::half_operands, Effect::half_gradients}) ==
        "activations and products in 16 bit; gradients in 16 bit");
  CHECK(text_of({}).empty());
  CHECK(change_text({}) == "as it is");
}

TEST_CASE("the cut of an update tells its samples, and those of before where they are others") {
  CHECK(text_of({UpdateCut{64, 64, 4, 16}}) == "64 samples an update, 16 at a time");
  CHECK(text_of({UpdateCut{64, 64, 1, 64}}) == "64 samples an update at once");
  CHECK(text_of({UpdateCut{63, 64, 3, 21}}) == "63 samples an update instead of 64, 21 at a time");
  CHECK(text_of({UpdateCut{1, 64, 1, 1}}) == "1 sample an update instead of 64");
}

TEST_CASE("a smaller model tells how many layers are how wide") {
  CHECK(text_of({NarrowerLayers{3, 4}}) == "3 layers 1/4 as wide");
  CHECK(text_of({Effect::fewer_repeats}) == "fewer repeats: the most that were found to fit");
  CHECK(text_of({Effect::smaller_model}) == "a smaller model: the largest that was found to fit");
}
