"""Texts drawn from a seed: scripts of the world, emoji, combining marks, code, numbers, contractions, blanks. Only
characters that every version of Unicode since 12 has, whose classes no library disagrees about.
"""
import unicodedata

# (first, last) code points; what is not assigned among them is left out.
SCRIPTS = {
    "Latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)], "Greek": [(0x370, 0x3FF)],
    "Cyrillic": [(0x400, 0x481), (0x48A, 0x4FF)], "Armenian": [(0x531, 0x556), (0x561, 0x587)],
    "Hebrew": [(0x5D0, 0x5EA)], "Arabic": [(0x620, 0x64A), (0x660, 0x669)], "Devanagari": [(0x900, 0x97F)],
    "Thai": [(0xE01, 0xE3A), (0xE40, 0xE5B)], "Georgian": [(0x10D0, 0x10FF)], "Hangul": [(0xAC00, 0xD7A3)],
    "Kana": [(0x3041, 0x3096), (0x30A1, 0x30FF)], "Han": [(0x4E00, 0x9FA5), (0x20000, 0x200FF)],
    "mathematical": [(0x1D400, 0x1D7FF)], "numbers": [(0xB2, 0xB3), (0xBC, 0xBE), (0x2150, 0x2188), (0xFF10, 0xFF19)],
    "emoji": [(0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F1E6, 0x1F1FF), (0x2600, 0x26FF)],
    "symbols": [(0x2190, 0x21FF), (0x20A0, 0x20BF), (0xA1, 0xBF), (0x2010, 0x2027), (0x3001, 0x3003)],
}
MARKS = [chr(point) for point in range(0x300, 0x36F)] + ["\u200d", "\ufe0f", "\u0301", "\u064b", "\u093f"]
BLANKS = [" ", "  ", "   ", "    ", "\n", "\n\n", "\t", "\t\t", "\r\n", "\r", " \n", "\n ", "\u00a0", "\u2003", "\u3000",
          "\u2028", "\x0b", "\x0c", "\x85", "\u1680", " \t \n", "\n\n  ", "\u180e", "\u200b", "\ufeff", "\x1c"]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Ve", "'x", "''s", "\u2019s", "'\u017f", "'"]
CODE = ["def f(x):\n    return x ** 2\n", "if (a != b) { c++; }\n", "<div class=\"x\">&nbsp;</div>", "SELECT * FROM t;\n",
        "0x1F", "1e-10", "a_b", "fooBar", "http://example.org/?q=1&r=2", "\\n", "//", "/* */", "```", "#!/bin/sh\n",
        "x = [i for i in range(10)]\n", "{\"key\": [1, 2.5, null]}", "===", "--", "...", "!!!", "?!", "(", ")", "“", "”"]
WORDS = ("the of and to in a is that for it as was with be by on not he i this are or his from at which but have an had they "
         "you were their one all we can her has there been if more when will would who so no token merge language model "
         "training memory gradient Hello World The It's don't we'll I'm they've she'd").split()


def characters():
    """Those of each script."""
    return {name: [chr(point) for first, last in ranges for point in range(first, last + 1)
                   if unicodedata.category(chr(point)) != "Cn"] for name, ranges in SCRIPTS.items()}


def mixed(random, length):
    """At least `length` bytes of everything."""
    scripts = characters()
    parts, size = [], 0
    while size < length:
        kind = random.random()
        if kind < 0.35:
            part = " ".join(random.choice(WORDS) for _ in range(random.randint(1, 8)))
        elif kind < 0.55:
            script = scripts[random.choice(list(scripts))]
            few = [random.choice(script) for _ in range(6)]
            part = "".join(random.choice(few) for _ in range(random.randint(1, 12)))
        elif kind < 0.60:
            part = "".join(random.choice("aeiou\u1ea1\u0e01\u0928") + random.choice(MARKS) for _ in range(random.randint(1, 4)))
        elif kind < 0.70:
            part = random.choice(BLANKS) * random.choice([1, 1, 1, 2, 5])
        elif kind < 0.78:
            part = random.choice(CODE)
        elif kind < 0.86:
            part = random.choice(WORDS) + random.choice(CONTRACTIONS)
        elif kind < 0.93:
            part = str(random.randrange(10 ** random.randint(1, 12)))
        else:
            part = "".join(chr(random.randrange(0x20, 0x7F)) for _ in range(random.randint(1, 10)))
        part += random.choice(["", " ", " ", " ", "\n", ", ", ". "])
        parts.append(part)
        size += len(part.encode())
    return "".join(parts)


def letters(random, length, alphabet="abc"):
    """Words of few letters, in which the same token arises in several ways."""
    words, size = [], 0
    while size < length:
        words.append("".join(random.choice(alphabet) for _ in range(random.randint(1, 12))))
        size += len(words[-1]) + 1
    return " ".join(words)


def unbroken(random, length):
    """One piece, whatever the expression: letters without a blank between them."""
    return "".join(random.choice(WORDS[:40]) for _ in range(length // 3))


def english(random, length):
    """Words as often as ranks of words are, in sentences and lines."""
    sentences, size = [], 0
    while size < length:
        words = [WORDS[min(int(random.paretovariate(0.9)) - 1, len(WORDS) - 1)] for _ in range(random.randint(3, 15))]
        sentences.append(" ".join(words).capitalize() + random.choice([".", ".", "?", "!", ".\n", ".\n\n"]))
        size += len(sentences[-1]) + 1
    return " ".join(sentences)


KINDS = {"mixed": mixed, "letters": letters, "unbroken": unbroken, "English": english}
