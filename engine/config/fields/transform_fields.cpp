#include "engine/config/fields/transform_fields.h"

#include <algorithm>

namespace trainer {
namespace {

template <class Spec, class Member, class MemberRule>
Field<TransformSpec> key_of(Member Spec::*member, const std::string& key, MemberRule rule, const std::string& help) {
  const auto access = [member](auto& transform) -> auto& { return std::get<Spec>(transform.spec).*member; };
  return field<TransformSpec>(key, access, std::move(rule), help);
}

Rule probability() {
  Rule rule = number_at_least(0.0);
  rule.maximum = 1.0;
  return rule;
}

/// Two numbers, the first not above the second, which the reader checks.
Rule range(Rule element) { return numbers(std::move(element), 2); }

/// Of an image, so that what it takes can be counted.
constexpr double largest_side = 32768;

Rule bounded(Rule rule) {
  rule.maximum = largest_side;
  return rule;
}

/// Of a colour's channel.
Rule level() { return integer(0, 255); }

EnumRule<Resampling> resampling() {
  return choice<Resampling>({{"nearest", Resampling::nearest, "the nearest pixel"},
                             {"bilinear", Resampling::bilinear, "linear, antialiased where the image becomes smaller"},
                             {"bicubic", Resampling::bicubic, "cubic, likewise"}});
}

template <class Spec>
Field<TransformSpec> size_field() {
  return key_of(&Spec::size, "size", bounded(pair(1)), "Height and width").required().also_called({"height", "width"});
}
template <class Spec>
Field<TransformSpec> p_field(const std::string& help) {
  return key_of(&Spec::p, "p", probability(), help).also_called({"prob", "probability"});
}
template <class Spec>
Field<TransformSpec> fill_field(const std::string& where) {
  return key_of(&Spec::fill, "fill", level(), "What each channel is " + where);
}

TransformKind resize() {
  using Spec = ResizeSpec;
  return {"resize",
          "Makes images smaller or larger",
          "resize: {size: 256}",
          Spec{},
          {key_of(&Spec::size, "size", bounded(integer_or_integers(1)),
                  "One number: of the shorter side, with the aspect kept; [height, width]: both")
               .required(),
           key_of(&Spec::interpolation, "interpolation", resampling(), "How pixels are found")
               .also_called({"mode", "filter", "resample"})},
          {"Resize", "scale", "rescale"}};
}

TransformKind center_crop() {
  using Spec = CenterCropSpec;
  return {"center_crop",
          "The middle of an image; a smaller one gets a border of zeros",
          "center_crop: {size: 224}",
          Spec{},
          {size_field<Spec>()},
          {"CenterCrop", "crop", "centre_crop"}};
}

TransformKind random_crop() {
  using Spec = RandomCropSpec;
  return {
      "random_crop",
      "A part of an image, anywhere in it",
      "random_crop: {size: 32, padding: 4}",
      Spec{},
      {size_field<Spec>(),
       key_of(&Spec::padding, "padding", bounded(sides(0)), "Pixels added at each side before").also_called({"pad"}),
       key_of(&Spec::pad_if_needed, "pad_if_needed", boolean(), "Whether an image that is smaller is padded"),
       key_of(&Spec::mode, "padding_mode",
              choice<PadMode>({{"constant", PadMode::zeros, "`fill`", {"zeros"}},
                               {"reflect", PadMode::reflect, "mirrored, without the edge"},
                               {"edge", PadMode::replicate, "the edge's pixels", {"replicate"}}}),
              "What the border is made of"),
       fill_field<Spec>("filled with")},
      {"RandomCrop"}};
}

TransformKind random_resized_crop() {
  using Spec = RandomResizedCropSpec;
  return {"random_resized_crop",
          "A part of random area and aspect, anywhere in an image, resized",
          "random_resized_crop: {size: 224}",
          Spec{},
          {size_field<Spec>(),
           key_of(&Spec::scale, "scale", range(number_above(0.0)), "The part's share of the area, from and to"),
           key_of(&Spec::ratio, "ratio", range(number_above(0.0)), "Its width over its height, from and to"),
           key_of(&Spec::interpolation, "interpolation", resampling(), "How pixels are found")
               .also_called({"mode", "filter", "resample"})},
          {"RandomResizedCrop", "random_sized_crop"}};
}

TransformKind flip() {
  using Spec = FlipSpec;
  return {"flip",
          "Mirrors some images",
          "flip: {p: 0.5}",
          Spec{},
          {key_of(&Spec::direction, "direction",
                  choice<FlipDirection>({{"horizontal", FlipDirection::horizontal, "left and right change places"},
                                         {"vertical", FlipDirection::vertical, "top and bottom do"}}),
                  "Which way"),
           p_field<Spec>("The probability")},
          {"RandomHorizontalFlip", "RandomVerticalFlip", "random_horizontal_flip", "random_flip", "horizontal_flip",
           "hflip", "vflip", "fliplr", "mirror"}};
}

TransformKind rotate() {
  using Spec = RotateSpec;
  return {"rotate",
          "Turns images about their centre; the size stays",
          "rotate: {degrees: 15}",
          Spec{},
          {key_of(&Spec::degrees, "degrees", number_or_numbers(number()),
                  "One number: up to so many either way; [from, to]: between them, counter-clockwise")
               .required()
               .also_called({"angle"}),
           key_of(&Spec::interpolation, "interpolation",
                  choice<Resampling>({{"nearest", Resampling::nearest, "the nearest pixel"},
                                      {"bilinear", Resampling::bilinear, "linear"}}),
                  "How pixels are found"),
           fill_field<Spec>("filled with where nothing comes from")},
          {"RandomRotation", "random_rotation", "rotation"}};
}

TransformKind color_jitter() {
  using Spec = ColorJitterSpec;
  const auto factor = [](std::vector<double> Spec::*member, const std::string& key) {
    return key_of(member, key, number_or_numbers(number_at_least(0.0)),
                  "One number f: multiplied by 1 − f to 1 + f; [from, to]: by that")
        .defaults_to("left alone");
  };
  Rule shift = number_at_least(-0.5);
  shift.maximum = 0.5;
  return {"color_jitter",
          "Changes brightness, contrast, saturation and hue, in random order",
          "color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4}",
          Spec{},
          {factor(&Spec::brightness, "brightness"), factor(&Spec::contrast, "contrast"),
           factor(&Spec::saturation, "saturation"),
           key_of(&Spec::hue, "hue", number_or_numbers(shift),
                  "One number f: turned by −f to f of the circle of colours; [from, to]: by that")
               .defaults_to("left alone")},
          {"ColorJitter", "colour_jitter", "jitter"}};
}

TransformKind random_erasing() {
  using Spec = RandomErasingSpec;
  return {"random_erasing",
          "Blots a rectangle out of some images",
          "random_erasing: {p: 0.25}",
          Spec{},
          {p_field<Spec>("The probability"),
           key_of(&Spec::scale, "scale", range(number_above(0.0)), "The rectangle's share of the area, from and to"),
           key_of(&Spec::ratio, "ratio", range(number_above(0.0)), "Its height over its width, from and to"),
           fill_field<Spec>("filled with")},
          {"RandomErasing", "cutout", "random_erase"}};
}

TransformKind to_grey() {
  using Spec = ToGreySpec;
  return {"to_grey",
          "Takes the colour out of images",
          "to_grey",
          Spec{},
          {p_field<Spec>("The probability; below 1 the number of channels stays"),
           key_of(&Spec::channels, "channels", integer(1, 3), "1, or 3 that are equal")
               .also_called({"num_output_channels"})},
          {"Grayscale", "RandomGrayscale", "grayscale", "greyscale", "to_gray", "gray", "grey"}};
}

template <class Spec>
Field<TransformSpec> alpha_field() {
  return key_of(&Spec::alpha, "alpha", number_at_least(1e-6),
                "Shares are of the distribution Beta(alpha, alpha): 1: any alike; below: rather of one image");
}

TransformKind mixup() {
  using Spec = MixUpSpec;
  return {
      "mixup",
      "Blends each training image, and its target, with another one of its batch: last in a list, done on the device",
      "mixup: {alpha: 0.2}",
      Spec{},
      {alpha_field<Spec>(), p_field<Spec>("The probability, of a batch")},
      {"MixUp", "mix_up"}};
}

TransformKind cutmix() {
  using Spec = CutMixSpec;
  return {"cutmix",
          "Puts a box of another image of its batch into each training image, and as much of its target; beside mixup "
          "each batch gets one of both",
          "cutmix: {alpha: 1}",
          Spec{},
          {alpha_field<Spec>(), p_field<Spec>("The probability, of a batch")},
          {"CutMix", "cut_mix"}};
}

}  // namespace

bool TransformKind::has_required_key() const {
  return std::any_of(fields.begin(), fields.end(), [](const auto& field) { return field.is_required; });
}

std::vector<std::string> TransformKind::keys() const {
  std::vector<std::string> keys;
  for (const auto& field : fields) keys.push_back(field.key);
  return keys;
}

const std::vector<TransformKind>& transform_kinds() {
  static const std::vector<TransformKind> all{resize(),  center_crop(), random_crop(),  random_resized_crop(),
                                              flip(),    rotate(),      color_jitter(), random_erasing(),
                                              to_grey(), mixup(),       cutmix()};
  return all;
}

const TransformKind* find_transform_kind(std::string_view name) {
  for (const TransformKind& kind : transform_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

std::vector<std::string> transform_kind_names() {
  std::vector<std::string> names;
  for (const TransformKind& kind : transform_kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace trainer
