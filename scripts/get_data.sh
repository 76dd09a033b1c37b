#!/usr/bin/env bash
# scripts/get_data.sh mnist|fashion-mnist|cifar10|shakespeare [DIR]: downloads a data set into DIR (data/<name> where none
# is given), ready for `data: {type: idx|cifar10|text, root: DIR}`. Every file is checked against its known MD5 before it
# takes its name, so a file that is there is whole; those that are there are not fetched again.
set -euo pipefail

usage() { sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
fail() {
  printf '%s\n' "$@" >&2
  exit 6
}

idx_files="train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz"
case ${1-} in
  mnist)
    # The original site asks browsers only; these two mirrors carry the files unchanged.
    mirrors="https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist"
    files=$idx_files
    sums="f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432
      9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c"
    ;;
  fashion-mnist)
    mirrors="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
      https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
    files=$idx_files
    sums="8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe
      bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310"
    ;;
  cifar10)
    mirrors="https://www.cs.toronto.edu/~kriz"
    files="cifar-10-binary.tar.gz"
    sums="c32a1d4ab5d03f1284b67883e8d87530"
    ;;
  shakespeare)
    # Tiny Shakespeare: 40,000 lines of his plays, 1.1 MB.
    mirrors="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
    files="input.txt"
    sums="6fb458f1232090904fb40fe944165e91"
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
(($# <= 2)) || { usage >&2; exit 2; }
directory=${2:-data/$1}

if command -v curl >/dev/null 2>&1; then
  fetch() { curl --fail --location --silent --show-error --connect-timeout 20 --output "$2" "$1"; }
elif command -v wget >/dev/null 2>&1; then
  fetch() { wget --no-verbose --timeout=20 --tries=2 --output-document="$2" "$1"; }
else
  fetch() {
    python3 -c 'import shutil, sys, urllib.request as u
with u.urlopen(sys.argv[1], timeout=20) as source, open(sys.argv[2], "wb") as target: shutil.copyfileobj(source, target)' \
      "$1" "$2"
  }
fi

md5_of() { md5sum "$1" | cut -d ' ' -f 1; }

# download FILE MD5: from the first mirror that has it unchanged.
download() {
  local file=$1 sum=$2 part=$directory/.$1.part mirror error reasons=()
  for mirror in $mirrors; do
    echo "Downloading $file from $mirror"
    if ! error=$(fetch "$mirror/$file" "$part" 2>&1); then
      reasons+=("  $mirror: $(tail -n 1 <<<"$error")")
    elif [[ $(md5_of "$part") != "$sum" ]]; then
      reasons+=("  $mirror: MD5 is $(md5_of "$part"), expected $sum")
    else
      mv "$part" "$directory/$file"
      return
    fi
    rm -f "$part"
  done
  fail "$file could not be downloaded:" "${reasons[@]}" \
    "Is this machine online? The file can also be copied to $directory/ by hand; run this again to check it."
}

mkdir -p "$directory"
trap 'rm -rf "$directory"/.*.part' EXIT
read -r -d '' -a expected <<<"$sums" || true
index=0
for file in $files; do
  sum=${expected[index]}
  index=$((index + 1))
  if [[ $1 == cifar10 && -f $directory/test_batch.bin ]]; then continue; fi
  if [[ -f $directory/$file ]]; then
    [[ $(md5_of "$directory/$file") != "$sum" ]] || continue
    fail "$directory/$file is damaged or another file: MD5 is $(md5_of "$directory/$file"), expected $sum" \
      "Delete it and run this again."
  fi
  download "$file" "$sum"
done

if [[ $1 == cifar10 && ! -f $directory/test_batch.bin ]]; then
  unpacked=$directory/.unpacked.part
  rm -rf "$unpacked"
  mkdir "$unpacked"
  tar -xzf "$directory/cifar-10-binary.tar.gz" -C "$unpacked" --strip-components=1
  for file in batches.meta.txt data_batch_{1..5}.bin test_batch.bin; do  # the last one marks the whole
    mv "$unpacked/$file" "$directory/$file"
  done
  rm -f "$directory/cifar-10-binary.tar.gz"
fi
echo "$1 is in $directory"
