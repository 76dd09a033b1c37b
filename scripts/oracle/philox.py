"""Philox4x32-10, written from the paper (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11), and the
numbers that trainer draws with it for the transforms of a sample (Note [Numbers of transforms] in
datasets/transforms/transform_chain.h). Shares no line with trainer's."""
import math

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
TRANSFORM_STREAM = 0xDA7A0006
MIXING_STREAM = 0xDA7A0008

# The paper's implementation, Random123, tells these answers (kat_vectors): counter, key, what comes out.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
    ((WORD,) * 4, (WORD,) * 2, (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
    ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
     (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1)),
]


def philox4x32(counter, key, rounds=10):
    """Four words of 32 bits, from four and two."""
    c, k = list(counter), list(key)
    for _ in range(rounds):
        left, right = MULTIPLIERS[0] * c[0], MULTIPLIERS[1] * c[2]
        c = [(right >> 32) ^ c[1] ^ k[0], right & WORD, (left >> 32) ^ c[3] ^ k[1], left & WORD]
        k = [(k[0] + WEYL[0]) & WORD, (k[1] + WEYL[1]) & WORD]
    return tuple(c)


class DrawnNumbers:
    """Of a sample by its number in the data set, or a batch by its number in the epoch, and an epoch from 0: a word a
    number, blocks of four words from number · 2^16 on."""

    def __init__(self, seed, epoch, number, stream=TRANSFORM_STREAM):
        self.key = (seed & WORD, seed >> 32 & WORD)
        self.step, self.block, self.stream = epoch, number << 16, stream
        self.words = []

    def word(self):
        if not self.words:
            counter = (self.block & WORD, self.block >> 32 & WORD, self.stream, self.step)
            self.words = list(philox4x32(counter, self.key))
            self.block += 1
        return self.words.pop(0)

    def unit(self):
        """In [0, 1)."""
        return self.word() / 2**32

    def between(self, low, high):
        return low + (high - low) * self.unit()

    def below(self, count):
        """A whole number from 0 to below `count`."""
        return math.floor(count * self.word() / 2**32)

    def permutation(self, count):
        """Fisher and Yates: from the last place on each changes places with one up to it."""
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
