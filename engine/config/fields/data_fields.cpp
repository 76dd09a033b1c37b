#include "engine/config/fields/column_fields.h"
#include "engine/config/fields/field_groups.h"
#include "engine/config/fields/mask_fields.h"
#include "engine/config/fields/node_field.h"
#include "engine/config/fields/written_out_field.h"
#include "engine/config/transform_reader.h"

namespace trainer {
namespace {

constexpr auto its_data = &Experiment::data;

/// One is shown as a word, as it is usually written.
ExperimentField target_field() {
  ExperimentField result = of(its_data, &DataConfig::target, "data.target",
                              text_or_texts("columns by name, or by number from 0", "[price, rent]"),
                              "The column to predict: its name, or its number from 0; of several, which are numbers, a "
                              "list");
  result.get = [](const Experiment& experiment) {
    const std::vector<std::string>& names = experiment.data.target;
    if (names.empty()) return Value();
    return names.size() == 1 ? Value(names.front()) : Value(names);
  };
  return std::move(result)
      .only({"csv", "image_list"})
      .defaults_to("the last column; of a list of images the other of two, or that called as targets usually are")
      .also_called({"label", "labels", "targets", "y"});
}

ExperimentField columns_by(std::vector<std::string> DataConfig::*member, const std::string& key,
                           const std::string& help) {
  return of(its_data, member, key, texts("columns by name, by number from 0, or by pattern with `*`", "[Name, Ticket]"),
            help)
      .only({"csv"});
}

/// Of tables: which columns, and what their cells stand for.
void add_column_fields(Fields& fields) {
  using enum ResumeEffect;
  fields.add(changes_numbers, target_field());
  fields.add(changes_numbers, columns_by(&DataConfig::include, "data.include", "The only columns that are features")
                                  .defaults_to("all but the target")
                                  .also_called({"features", "usecols", "feature_columns", "input_columns"}));
  fields.add(changes_numbers, columns_by(&DataConfig::exclude, "data.exclude", "Columns that are left out")
                                  .also_called({"drop_columns", "ignore_columns", "ignored", "drop", "exclude_columns",
                                                "skip_columns"}));
  fields.add(changes_numbers,
             columns_field().only({"csv"}).also_called({"column_types", "dtypes", "dtype", "categorical_columns"}));
  fields.add(changes_numbers,
             of(its_data, &DataConfig::missing, "data.missing", missing_choices(),
                "What becomes of cells without a value; of a list each column takes the first that suits its kind")
                 .only({"csv"})
                 .defaults_to("error")
                 .also_called({"impute", "imputer", "fillna", "missing_strategy", "na"}));
  fields.add(
      changes_numbers,
      of(its_data, &DataConfig::missing_values, "data.missing_values", text_or_texts("texts", "['?', '-999']"),
         "Cells that hold no value, beside empty ones and NA, N/A, NaN, null, None and what else pandas takes for "
         "one")
          .only({"csv"})
          .also_called({"na_values", "null_values", "missing_markers"}));
  fields.add(changes_numbers, of(its_data, &DataConfig::max_categories, "data.max_categories", integer(1),
                                 "How many different texts a column of categories may have")
                                  .only({"csv"})
                                  .also_called({"max_cardinality", "max_levels"}));
  fields.add(changes_numbers,
             of(its_data, &DataConfig::standardize, "data.standardize", boolean(),
                "Whether numbers become (x − mean) / std, by the mean and deviation of the training samples")
                 .only({"csv"})
                 .also_called({"standardise", "standard_scale", "scale"}));
  fields.add(changes_numbers,
             of(its_data, &DataConfig::standardize_target, "data.standardize_target", boolean(),
                "Whether numbers to predict do too; loss and mean absolute error are then in their standard deviations")
                 .only({"csv"})
                 .also_called({"standardise_target", "scale_target", "normalize_target"}));
}
ExperimentField train_transforms_field() {
  const std::string key = "data.transforms.train";
  return node_field<Experiment>(
      key, transform_list(), "What is done to each training image, drawn anew each epoch, and behind it to batches",
      [](Experiment& experiment) {
        experiment.data.train_transforms.clear();
        experiment.data.batch_transforms.clear();
      },
      [key](Experiment& experiment, const Node& node, SourceSet& sources) {
        std::vector<TransformSpec> list = read_transforms(node, key, true, sources);
        const auto first = std::stable_partition(
            list.begin(), list.end(), [](const TransformSpec& transform) { return !transform.is_of_batches(); });
        experiment.data.batch_transforms.assign(first, list.end());
        list.erase(first, list.end());
        experiment.data.train_transforms = std::move(list);
      },
      [](const Experiment& experiment) {
        std::vector<TransformSpec> list = experiment.data.train_transforms;
        const std::vector<TransformSpec>& of_batches = experiment.data.batch_transforms;
        list.insert(list.end(), of_batches.begin(), of_batches.end());
        return node_of_transforms(list);
      });
}

ExperimentField validation_transforms_field() {
  const std::string key = "data.transforms.validation";
  return node_field<Experiment>(
      key, transform_list(), "What is done to each validation image",
      [](Experiment& experiment) { experiment.data.validation_transforms.clear(); },
      [key](Experiment& experiment, const Node& node, SourceSet& sources) {
        experiment.data.validation_transforms = read_transforms(node, key, false, sources);
      },
      [](const Experiment& experiment) { return node_of_transforms(experiment.data.validation_transforms); });
}

ExperimentField workers_field() {
  ExperimentField result;
  result.key = "data.workers";
  result.rule = integer_or("auto", 1);
  result.rule.maximum = most_workers;
  result.help =
      "Threads that read and transform samples ahead; numbers do not depend on it. `auto`: one where samples lie in "
      "memory as they are, else one for each core but one, at most 16";
  result.set = [](Experiment& experiment, const Value& value) {
    const auto* workers = std::get_if<std::int64_t>(&value);
    experiment.data.workers = workers == nullptr ? 0 : *workers;
  };
  result.get = [](const Experiment& experiment) {
    const std::int64_t workers = experiment.data.workers;
    return workers == 0 ? Value(std::string("auto")) : Value(workers);
  };
  return std::move(result).also_called({"num_workers", "dataloader_num_workers"});
}

/// Not shown where synthetic samples have a shape.
ExperimentField sequence_length_field() {
  ExperimentField result = of(its_data, &DataConfig::sequence_length, "data.sequence_length", integer(1),
                              "Tokens of a sample, whose target is the same a token on; synthetic samples are tokens "
                              "where it is written, in place of `data.shape`");
  result.get = [](const Experiment& experiment) {
    const DataConfig& data = experiment.data;
    return data.type == DataType::synthetic && !data.shape.empty() ? Value() : Value(data.sequence_length);
  };
  return std::move(result)
      .only({"tokens", "text", "synthetic"})
      .also_called({"block_size", "seq_len", "context_length", "max_length"});
}

/// Shown where tokens are masked: without that it says nothing.
ExperimentField mask_share() {
  ExperimentField result = of(&Experiment::data, &DataConfig::mask_share, "data.mask_share", fraction(),
                              "mask_token: the share of tokens that count, drawn by seed, epoch and sample, at least "
                              "one of each sample");
  result.get = [](const Experiment& experiment) {
    return experiment.data.mask_token ? Value(experiment.data.mask_share) : Value();
  };
  return std::move(result)
      .defaults_to("0.15")
      .only({"tokens", "text"})
      .also_called({"mlm_probability", "mask_probability", "mask_ratio"});
}

/// Images of any size, which files hold encoded.
const std::vector<std::string> image_files{"image_folder", "image_list", "segmentation", "tar"};

}  // namespace

void add_data_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto data = &Experiment::data;
  const std::vector<std::string> images{"digits",       "idx",        "cifar10",      "arrays", "synthetic",
                                        "image_folder", "image_list", "segmentation", "tar"};
  const std::vector<std::string> stored_images{"digits",       "idx",        "cifar10",      "arrays",
                                               "image_folder", "image_list", "segmentation", "tar"};
  fields.add(changes_numbers,
             of(data, &DataConfig::type, "data.type",
                choice<DataType>(
                    {{"digits", DataType::digits, "1,797 handwritten digits of 8×8 that come with trainer"},
                     {"idx",
                      DataType::idx,
                      "MNIST, Fashion-MNIST and others in that format, plain or .gz",
                      {"mnist", "fashion-mnist", "fashion_mnist"}},
                     {"cifar10", DataType::cifar10, "the binary version of CIFAR-10", {"cifar", "cifar-10"}},
                     {"csv", DataType::csv, "a table of numbers and words, some of its columns the targets"},
                     {"arrays",
                      DataType::arrays,
                      "arrays of images, features and targets: .npy, .npz, safetensors",
                      {"npy", "npz", "numpy", "array", "safetensors"}},
                     {"synthetic", DataType::synthetic, "random samples of a given shape"},
                     {"image_folder",
                      DataType::image_folder,
                      "a folder of images for each class: JPEG, PNG, WebP, BMP",
                      {"folder", "images", "imagefolder", "ImageFolder", "image_directory"}},
                     {"image_list",
                      DataType::image_list,
                      "images that a table or JSON Lines name, with labels or numbers",
                      {"list", "image_csv", "images_csv", "image_table", "jsonl", "ImageList"}},
                     {"segmentation",
                      DataType::segmentation,
                      "a folder of images and one of masks, which hold a class for each pixel",
                      {"masks", "semantic_segmentation", "image_masks"}},
                     {"tar",
                      DataType::tar,
                      "shards as WebDataset writes them: tar archives of images and labels",
                      {"webdataset", "wds", "shards"}},
                     {"tokens",
                      DataType::tokens,
                      "texts as tokens: the .bin files of nanoGPT and llm.c, which `trainer tokenizer encode` writes",
                      {"token", "bin", "nanogpt", "llm.c"}},
                     {"text", DataType::text, "texts, which are made tokens once", {"txt", "texts", "plain_text"}}}),
                "The format of the data")
                 .also_called({"kind", "dataset", "format"}));
  fields.add(harmless, of(data, &DataConfig::root, "data.root", text(), "The folder of the files")
                           .only({"idx", "cifar10", "arrays", "image_folder", "image_list", "segmentation", "tar",
                                  "tokens", "text"})
                           .also_called({"path", "dir", "folder"}));
  fields.add(harmless,
             of(data, &DataConfig::train, "data.train", text(),
                "The training file; for idx the images, for image_folder the folder of class folders, for segmentation "
                "that of images, where their name is not the usual one; for arrays the samples, or a file that holds "
                "samples and targets; for image_list the list, for tar the shards: train-{0000..0009}.tar, train-*.tar")
                 .only({"csv", "idx", "arrays", "image_folder", "image_list", "segmentation", "tar", "tokens", "text"})
                 .also_called({"file", "train_file"}));
  fields.add(harmless,
             of(data, &DataConfig::validation, "data.validation", text(), "The validation file or folder, likewise")
                 .only({"csv", "idx", "arrays", "image_folder", "image_list", "segmentation", "tar", "tokens", "text"})
                 .also_called({"val", "valid", "test"}));
  fields.add(harmless, of(data, &DataConfig::train_labels, "data.train_labels", text(),
                          "The labels of `data.train`; for segmentation the folder of its masks")
                           .only({"idx", "arrays", "segmentation"})
                           .also_called({"masks", "train_masks", "mask_folder", "labels_folder"}));
  fields.add(harmless, of(data, &DataConfig::validation_labels, "data.validation_labels", text(),
                          "The labels of `data.validation`, likewise")
                           .only({"idx", "arrays", "segmentation"})
                           .also_called({"validation_masks", "val_masks"}));
  fields.add(changes_numbers, of(data, &DataConfig::image, "data.image", text(),
                                 "The column of paths in a list of images: its name, or its number from 0")
                                  .only({"image_list"})
                                  .defaults_to("that called as paths usually are: path, image, file …")
                                  .also_called({"image_column", "path_column", "fn_col", "filename_column"}));
  fields.add(changes_numbers, of(data, &DataConfig::image_suffix, "data.image_suffix", text(),
                                 "What follows each path of a list, such as .jpg")
                                  .only({"image_list"})
                                  .defaults_to("nothing")
                                  .also_called({"suff", "suffix", "extension"}));
  fields.add(changes_numbers, of(data, &DataConfig::label_separator, "data.label_separator", text(),
                                 "What stands between several labels in one cell of a table, such as `;`")
                                  .only({"image_list"})
                                  .defaults_to("none: a cell is one label")
                                  .also_called({"label_delim", "tag_separator"}));
  fields.add(harmless, of(data, &DataConfig::mask_suffix, "data.mask_suffix", text(),
                          "What the name of a mask has behind that of its image: `_mask` where that of `a.jpg` is "
                          "`a_mask.png`; both may then be in one folder")
                           .only({"segmentation"})
                           .defaults_to("nothing"));
  fields.add(changes_numbers, mask_classes_field()
                                  .only({"segmentation"})
                                  .also_called({"class_map", "label_map", "mask_values", "id_to_class"}));
  fields.add(harmless, of(data, &DataConfig::train_input, "data.fields.input", text(),
                          "The name of the samples in a file of several arrays")
                           .only({"arrays"})
                           .defaults_to("of two arrays the usual: x, images, features …"));
  fields.add(harmless,
             of(data, &DataConfig::train_target, "data.fields.target", text(), "The name of the targets, likewise")
                 .only({"arrays"})
                 .defaults_to("of two arrays the usual: y, labels, targets …"));
  fields.add(harmless, of(data, &DataConfig::validation_input, "data.fields.validation_input", text(),
                          "The name of the samples for validation, which are in `data.train` where `data.validation` "
                          "is not given")
                           .only({"arrays"})
                           .defaults_to("`data.fields.input`, where `data.validation` has that"));
  fields.add(harmless, of(data, &DataConfig::validation_target, "data.fields.validation_target", text(),
                          "The name of their targets")
                           .only({"arrays"})
                           .defaults_to("`data.fields.target`, where `data.validation` has that"));
  fields.add(changes_numbers,
             of(data, &DataConfig::layout, "data.layout",
                choice<ImageLayout>(
                    {{"auto", ImageLayout::automatic, "channels last, where shapes tell; else it is asked for"},
                     {"channels_last", ImageLayout::channels_last, "(N, H, W, C)", {"NHWC", "nhwc"}},
                     {"channels_first", ImageLayout::channels_first, "(N, C, H, W)", {"NCHW", "nchw"}}}),
                "The axes of an array of four dimensions")
                 .only({"arrays"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::split, "data.split", number_below(0.0, 1.0),
                "Share of the training samples set aside for validation, instead of validation files beside them; of "
                "tokens the end of the file")
                 .also_called({"validation_split", "val_split", "train_split", "valid_pct", "test_size"}));
  fields.add(changes_numbers, of(data, &DataConfig::shuffle, "data.shuffle", boolean(),
                                 "Whether each epoch takes the training samples in a new order"));
  fields.add(
      changes_numbers,
      of(data, &DataConfig::shuffle_buffer, "data.shuffle_buffer", integer(0),
         "Samples among which `shuffle` mixes, so that files are read nearly in order: four stretches of a quarter "
         "as many each, from anywhere; nothing is held in memory for it; 0: all samples")
          .only(image_files)
          .also_called({"shuffle_size", "buffer_size", "shuffle_window"}));
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
  fields.add(changes_numbers,
             written_out<Experiment>("data.size", pair(1),
                                     "Height and width for transforms that need a size and have none; where none are "
                                     "listed, images are resized to it")
                 .also_called({"image_size", "img_size", "input_size", "resolution"}));
  fields.add(changes_numbers, train_transforms_field()
                                  .only_with("data.type", images)
                                  .also_called({"augment", "augmentation", "augmentations", "data_augmentation"}));
  fields.add(changes_numbers, validation_transforms_field()
                                  .only_with("data.type", stored_images)
                                  .also_called({"val", "valid", "test", "eval"}));
  fields.add(changes_numbers, of(data, &DataConfig::channels, "data.channels", integer(1, 4),
                                 "What images are decoded to: 1 grey, 3 RGB, 4 RGBA")
                                  .only(image_files));
  fields.add(changes_numbers,
             of(data, &DataConfig::class_names, "data.class_names", texts("class folders", "[cat, dog]"),
                "Names of classes in the order of their numbers; of class folders others are left out")
                 .only(image_files)
                 .defaults_to("class folders, sorted")
                 .also_called({"class_order", "labels"}));
  fields.add(harmless, of(data, &DataConfig::max_pixels, "data.max_pixels", integer(1),
                          "Images of more pixels are refused before they are decoded")
                           .only(image_files));
  fields.add(changes_numbers,
             of(data, &DataConfig::on_bad_sample, "data.on_bad_sample",
                choice<OnBadSample>(
                    {{"error", OnBadSample::error, "the run ends and names the file"},
                     {"skip", OnBadSample::skip, "the next sample takes its place; the run lists what was skipped"}}),
                "What a file that cannot be read means")
                 .only(image_files));
  fields.add(harmless,
             of(data, &DataConfig::cache, "data.cache",
                choice<ImageCaching>({{"none", ImageCaching::none, "images are decoded in every epoch", {"off", "no"}},
                                      {"ram", ImageCaching::ram, "in memory, which the plan counts", {"memory"}},
                                      {"disk", ImageCaching::disk, "in a file that later runs use too"}}),
                "Where images are kept, as bytes, behind the transforms that draw nothing and come first, such as "
                "resize; numbers do not depend on it")
                 .only(image_files)
                 .also_called({"cache_images", "caching"}));
  fields.add(harmless, of(data, &DataConfig::cache_folder, "data.cache_folder", text(),
                          "Where `cache: disk` has its files, and a text its tokens")
                           .only({"image_folder", "image_list", "segmentation", "tar", "text"})
                           .defaults_to("XDG_CACHE_HOME or ~/.cache, with trainer/images or trainer/tokens")
                           .also_called({"cache_dir", "cache_path"}));
  fields.add(
      changes_numbers,
      of(data, &DataConfig::reduced_decoding, "data.reduced_decoding", boolean(),
         "Whether JPEGs that become less than half as large are decoded at a half, a quarter or an eighth: faster, "
         "and some pixels at edges differ by up to 20 of 255")
          .only(image_files)
          .also_called({"draft", "decode_at_scale", "dct_scaling"}));
  fields.add(harmless, workers_field().only(stored_images));
  fields.add(harmless,
             of(data, &DataConfig::memory, "data.memory", size_of_memory(0),
                "Host memory that the dataset, batches read ahead and `workers` may take: where it is less, fewer "
                "threads read; 0: as much as they want")
                 .also_called({"input_memory", "max_memory", "prefetch_memory"}));
  add_column_fields(fields);
  fields.add(changes_numbers,
             of(data, &DataConfig::target_type, "data.target_type",
                choice<TaskTarget>({{"categorical", TaskTarget::categorical, "classes"},
                                    {"numeric", TaskTarget::numeric, "a number to regress"},
                                    {"multi_label",
                                     TaskTarget::multi_label,
                                     "of a list of images, any number of labels: 1 for each that an image has, else "
                                     "0, for bce_with_logits",
                                     {"multilabel", "multi", "labels", "tags"}}}),
                "What the target is")
                 .only({"csv", "arrays", "image_list", "synthetic"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::header, "data.header", boolean(), "Whether the first line names the columns")
                 .only({"csv", "image_list"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::delimiter, "data.delimiter", text(), "The character between columns")
                 .only({"csv", "image_list"})
                 .also_called({"sep", "separator"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::shape, "data.shape", integers(1),
                "Of one sample: [height, width, channels] or [features]; for files, declares what they hold, so "
                "that a plan needs no files")
                 .defaults_to("from the files"));
  fields.add(changes_numbers,
             of(data, &DataConfig::target_shape, "data.target_shape", integers(1),
                "Of a sample's target: [height, width] for a class each pixel, [height, width, channels] for numbers; "
                "for idx and arrays, declares what the label files hold")
                 .only({"idx", "arrays", "synthetic"})
                 .defaults_to("one class, or `data.classes` numbers"));
  fields.add(changes_numbers, of(data, &DataConfig::classes, "data.classes", integer(0),
                                 "Number of classes, of tokens those of the vocabulary; 0: from the data")
                                  .also_called({"num_classes", "n_classes", "vocab", "vocab_size"}));
  fields.add(
      changes_numbers,
      of(data, &DataConfig::tokenizer, "data.tokenizer", text(),
         "What makes tokens of a text: `bytes`, or a tokenizer.json, or a folder with one or with vocab.json and "
         "merges.txt")
          .only({"text"})
          .also_called({"tokeniser", "encoding", "vocab_file"}));
  fields.add(changes_numbers, sequence_length_field());
  fields.add(changes_numbers,
             of(data, &DataConfig::document_token, "data.document_token", integer(0),
                "Documents stand behind one another in a sample, and each of these tokens begins one: attention stays "
                "within a document, and learned positions begin anew in each")
                 .only({"tokens", "text", "synthetic"})
                 .defaults_to("none: a sample is one text")
                 .also_called({"eos_token_id", "eot_token", "end_of_text", "bos_token_id"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::pad_token, "data.pad_token", integer(0),
                "document_token: a sample is one document, filled up with this token, whose targets are -100, or "
                "`loss.ignore_index`; one that is longer is cut into several samples")
                 .only({"tokens", "text"})
                 .defaults_to("none: samples are windows of the text")
                 .also_called({"pad_token_id", "padding_token", "pad"}));
  fields.add(changes_numbers,
             of(data, &DataConfig::mask_token, "data.mask_token", integer(0),
                "As BERT learns: the target is the sample itself, of which some tokens count, each replaced by this "
                "one (8 of 10), by any (1) or left as it is (1); the others are -100, or `loss.ignore_index`")
                 .only({"tokens", "text"})
                 .defaults_to("none: the target is the next token")
                 .also_called({"mask_token_id", "mask", "mask_id"}));
  fields.add(changes_numbers, mask_share());
  fields.add(changes_numbers,
             of(data, &DataConfig::samples, "data.samples", integer(0),
                "Number of training samples, after the split: where there are more, so many of them, chosen by "
                "`seed`; 0: all")
                 .also_called({"num_samples", "size", "length"}));
  fields.add(changes_numbers, of(data, &DataConfig::validation_samples, "data.validation_samples", integer(0),
                                 "Number of validation samples, likewise; 0: all"));
}

}  // namespace trainer
