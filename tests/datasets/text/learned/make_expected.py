#!/usr/bin/env python3
"""Writes expected.json: what `tokenizers` makes of some texts by the tokenizers that lie here.

The tokenizers were learned by trainer from the README:
  trainer tokenizer train README.md --vocab 330 --special '<|endoftext|>' -o gpt2.json
  trainer tokenizer train README.md --vocab 330 --pattern llama3 --special '<|endoftext|>' -o llama3.json
"""
import json
import pathlib

import tokenizers

TEXTS = ["", " ", "trainer trains networks", "It's what we'll plan:\n\n  batches of 1,234,567", "I'LL it'ſ", "你好, Привет! 😀",
         "e\u0301\u0327 \u0928\u092e\u0938\u094d\u0924\u0947", "a\t\t b\r\n\r\n   c  ", "x<|endoftext|>  y<|endoftext|><|endoftext|>",
         "  \n \n\u00a0\u3000\u2003z\u180e\u180e", "def f(x):\n    return x ** 2  # …\n", "٣٤٥ ½ ⅷ 𝟘𝟙𝟚", "aaaaaaaaaaaaaaaaaaaaaaaaaa" * 4]


def main():
    folder = pathlib.Path(__file__).resolve().parent
    expected = []
    for name in ("gpt2", "llama3"):
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / f"{name}.json"))
        for text in TEXTS:
            tokenizer.encode_special_tokens = False
            with_special = tokenizer.encode(text, add_special_tokens=False).ids
            tokenizer.encode_special_tokens = True
            as_text = tokenizer.encode(text, add_special_tokens=False).ids
            expected.append({"tokenizer": name, "text": text, "ids": as_text, "ids_with_special": with_special})
    lines = ",\n".join(json.dumps(each) for each in expected)
    (folder / "expected.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
