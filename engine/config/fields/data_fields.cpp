#include "engine/config/fields/field_groups.h"

namespace trainer {

void add_data_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto data = &Experiment::data;
  const std::vector<std::string> images{"digits", "idx", "cifar10", "synthetic"};
  fields.add(
      changes_numbers,
      of(data, &DataConfig::type, "data.type",
         choice<DataType>({{"digits", DataType::digits, "1,797 handwritten digits of 8×8 that come with trainer"},
                           {"idx",
                            DataType::idx,
                            "MNIST, Fashion-MNIST and others in that format, plain or .gz",
                            {"mnist", "fashion-mnist", "fashion_mnist"}},
                           {"cifar10", DataType::cifar10, "the binary version of CIFAR-10", {"cifar", "cifar-10"}},
                           {"csv", DataType::csv, "a table of numbers with one target column"},
                           {"synthetic", DataType::synthetic, "random samples of a given shape"}}),
         "The format of the data")
          .also_called({"kind", "dataset", "format"}));
  fields.add(harmless, of(data, &DataConfig::root, "data.root", text(), "The folder of the files")
                           .only({"idx", "cifar10"})
                           .also_called({"path", "dir", "folder"}));
  fields.add(harmless, of(data, &DataConfig::train, "data.train", text(),
                          "The training file; for idx the images, where their name is not the usual one")
                           .only({"csv", "idx"})
                           .also_called({"file", "train_file"}));
  fields.add(harmless, of(data, &DataConfig::validation, "data.validation", text(), "The validation file, likewise")
                           .only({"csv", "idx"})
                           .also_called({"val", "valid", "test"}));
  fields.add(
      harmless,
      of(data, &DataConfig::train_labels, "data.train_labels", text(), "The labels of `data.train`").only({"idx"}));
  fields.add(harmless, of(data, &DataConfig::validation_labels, "data.validation_labels", text(),
                          "The labels of `data.validation`")
                           .only({"idx"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::split, "data.split", number_below(0.0, 1.0),
                "Share of the training samples set aside for validation, instead of validation files beside them")
                 .also_called({"validation_split", "val_split", "train_split", "valid_pct", "test_size"}));
  fields.add(changes_numbers, of(data, &DataConfig::shuffle, "data.shuffle", boolean(),
                                 "Whether each epoch takes the training samples in a new order"));
  fields.add(changes_numbers, of(data, &DataConfig::drop_last, "data.drop_last", boolean(),
                                 "Whether a last batch that is not full is left out of training"));
  fields.add(changes_numbers, of(data, &DataConfig::mean, "data.normalize.mean", number_or_numbers(number()),
                                 "Subtracted from each channel of pixel / 255")
                                  .only(images)
                                  .defaults_to("not subtracted"));
  fields.add(changes_numbers, of(data, &DataConfig::std, "data.normalize.std", number_or_numbers(number_above(0.0)),
                                 "Divides each channel after that")
                                  .only(images)
                                  .defaults_to("not divided"));
  fields.add(changes_numbers, of(data, &DataConfig::target, "data.target", text(),
                                 "The column to predict: its name, or its number from 0")
                                  .only({"csv"})
                                  .defaults_to("the last column")
                                  .also_called({"label", "y"}));
  fields.add(changes_numbers, of(data, &DataConfig::target_type, "data.target_type",
                                 choice<TaskTarget>({{"categorical", TaskTarget::categorical, "classes"},
                                                     {"numeric", TaskTarget::numeric, "a number to regress"}}),
                                 "What the target is")
                                  .only({"csv", "synthetic"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::header, "data.header", boolean(), "Whether the first line names the columns")
                 .only({"csv"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::delimiter, "data.delimiter", text(), "The character between columns")
                 .only({"csv"})
                 .also_called({"sep", "separator"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::shape, "data.shape", integers(1),
                "Of one sample: [height, width, channels] or [features]; for files, declares what they hold, so "
                "that a plan needs no files")
                 .defaults_to("from the files"));
  fields.add(changes_numbers,
             of(data, &DataConfig::target_shape, "data.target_shape", integers(1),
                "Of a sample's target: [height, width] for a class each pixel, [height, width, channels] for numbers; "
                "for idx, declares what the label files hold")
                 .only({"idx", "synthetic"})
                 .defaults_to("one class, or `data.classes` numbers"));
  fields.add(changes_numbers,
             of(data, &DataConfig::classes, "data.classes", integer(0), "Number of classes; 0: from the data")
                 .also_called({"num_classes", "n_classes"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::samples, "data.samples", integer(0),
                "Number of training samples, after the split: where there are more, so many of them, chosen by "
                "`seed`; 0: all")
                 .also_called({"num_samples", "size", "length"}));
  fields.add(changes_numbers, of(data, &DataConfig::validation_samples, "data.validation_samples", integer(0),
                                 "Number of validation samples, likewise; 0: all"));
}

}  // namespace trainer
