"""What the compiler made of each kernel, read from the machine code itself, so that no disassembler is needed.

Reads cubins and files that hold fat binaries (objects, the module). Instructions of sm_70 to sm_90 have 16 bytes: bits
0 to 11 are the opcode with the form of its operands, bits 73 to 75 the width of a memory access. kernel_code_test.py
proves the few opcodes below on instructions that ptxas is told to make.
"""

import collections
import re
import struct
import subprocess

FATBIN, CUBIN = 0xBA55ED50, 2
COMPRESSED = 0x2000 | 0x8000
ACCESSES = {0x381: "LDG", 0x981: "LDG", 0x386: "STG", 0x986: "STG", 0x984: "LDS", 0x388: "STS", 0x988: "STS",
            0x983: "LDL", 0x387: "STL", 0x987: "STL"}
# DIV64: a conversion that only the subroutine for divisions of 64-bit integers makes.
# HMMA: a product of 16-bit matrices by tensor cores; LDSM: matrices of these from shared memory.
OTHERS = {0x943: "CALL", 0x944: "CALL", 0x311: "DIV64", 0x23c: "HMMA", 0x83b: "LDSM"}
WIDTHS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
REGISTERS = 0x2f  # EIATTR_REGCOUNT
# griddepcontrol.wait; and what must not stand before it: accesses in any form to memory that is not the block's own, and
# ends.
WAIT = 0x82e
AFTER_THE_WAIT = {0x380: "LD", 0x980: "LD", 0x385: "ST", 0x985: "ST", 0x381: "LDG", 0x981: "LDG", 0x386: "STG",
                  0x986: "STG", 0x38a: "ATOM", 0x98a: "ATOM", 0x3a8: "ATOMG", 0x9a8: "ATOMG", 0x3a9: "ATOMG",
                  0x38e: "RED", 0x98e: "RED", 0x3ae: "LDGSTS", 0x9ae: "LDGSTS", 0xfae: "LDGSTS", 0x94d: "EXIT",
                  0x950: "RET"}


class Kernel:
    """name: demangled, without parameters; counts: of "LDG.128", "STG.32", "CALL", …; registers of a thread; num_bytes
    of code and of shared memory; too_early: what stands before the wait for earlier kernels, "" where nothing does."""

    def __init__(self, symbol, code):
        self.symbol, self.name, self.registers, self.shared = symbol, symbol, None, 0
        self.length = len(code) // 16
        self.counts = collections.Counter()
        self.too_early = None
        for at in range(0, len(code) - 15, 16):
            low, high = struct.unpack_from("<QQ", code, at)
            opcode = low & 0xFFF
            if self.too_early is None and (opcode == WAIT or opcode in AFTER_THE_WAIT):
                self.too_early = AFTER_THE_WAIT.get(opcode, "")
            if opcode in ACCESSES:
                self.counts["%s.%d" % (ACCESSES[opcode], WIDTHS.get(high >> 9 & 7, 0))] += 1
            elif opcode in OTHERS:
                self.counts[OTHERS[opcode]] += 1

    def count(self, *names):
        """How many there are of, for example, "STG.32"; of every width for "STG"."""
        return sum(n for key, n in self.counts.items() if key in names or key.split(".")[0] in names)


def sections(elf):
    """(name, sh_type, sh_info, contents) of each section of a 64-bit ELF file."""
    offset, = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, kind, _, _, start, num_bytes, _, info, _, _ in headers:
        end = elf.index(b"\0", names + name)
        yield elf[names + name:end].decode(), kind, info, b"" if kind == 8 else elf[start:start + num_bytes], num_bytes


def kernels_of_cubin(elf):
    found, by_symbol, symbols = {}, {}, []
    for name, kind, _, contents, _ in sections(elf):
        if name.startswith(".text."):
            found[name[6:]] = Kernel(name[6:], contents)
        elif name == ".symtab":
            symbols = [struct.unpack_from("<I", contents, at)[0] for at in range(0, len(contents), 24)]
        elif name == ".strtab":
            strings = contents
    for i, offset in enumerate(symbols):
        by_symbol[i] = strings[offset:strings.index(b"\0", offset)].decode()
    for name, _, _, contents, num_bytes in sections(elf):
        if name.startswith(".nv.shared.") and name[11:] in found:
            found[name[11:]].shared = num_bytes
        if name != ".nv.info":
            continue
        at = 0
        while at + 4 <= len(contents):
            form, attribute, value = struct.unpack_from("<BBH", contents, at)
            at += 4
            if form != 4:  # only the form "size and value" is followed by its value
                continue
            if attribute == REGISTERS:
                symbol, registers = struct.unpack_from("<II", contents, at)
                if by_symbol.get(symbol) in found:
                    found[by_symbol[symbol]].registers = registers
            at += value
    return list(found.values())


def cubins(contents, architecture):
    if contents[:4] == b"\x7fELF" and struct.unpack_from("<H", contents, 18)[0] == 190:  # EM_CUDA
        yield contents
        return
    at = contents.find(struct.pack("<I", FATBIN))
    while at >= 0:
        header, size = struct.unpack_from("<HQ", contents, at + 6)
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", contents, entry)
            if kind == CUBIN and struct.unpack_from("<I", contents, entry + 28)[0] == architecture:
                if struct.unpack_from("<Q", contents, entry + 40)[0] & COMPRESSED:
                    raise SystemExit("the kernels are compressed: build with nvcc's default --compress-mode")
                yield contents[entry + header:entry + header + size]
            entry += header + size
        at = contents.find(struct.pack("<I", FATBIN), end)


def kernels_of(path, architecture=90):
    """Of a cubin, or those for one architecture of a file that holds fat binaries."""
    with open(path, "rb") as file:
        contents = file.read()
    kernels = [kernel for cubin in cubins(contents, architecture) for kernel in kernels_of_cubin(cubin)]
    names = subprocess.run(["c++filt"], input="\n".join(k.symbol for k in kernels), capture_output=True, text=True,
                           check=True).stdout.split("\n")
    for kernel, name in zip(kernels, names):
        name = re.sub(r"trainer::cuda::|\(anonymous namespace\)::|^void ", "", name)
        # Up to the parenthesis of the parameters, which is the first outside the template's arguments.
        depth = 0
        for i, letter in enumerate(name):
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if letter == "(" and depth == 0:
                name = name[:i]
                break
        kernel.name = name
    return kernels
