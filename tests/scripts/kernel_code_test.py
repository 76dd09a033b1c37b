"""kernel_code_test.py MODULE PTXAS: what the machine code of the built kernels must be like."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import kernel_code

MODULE, PTXAS = sys.argv[1:3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

PROBE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry accesses(.param .u64 p, .param .u64 q) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>; .reg .b16 %rs<3>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
  ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1]; st.global.v4.u32 [%rd2], {%r1,%r2,%r3,%r4};
  ld.global.v2.u32 {%r5,%r6}, [%rd1+64]; st.global.v2.u32 [%rd2+64], {%r5,%r6};
  ld.global.u32 %r7, [%rd1+96]; st.global.u32 [%rd2+96], %r7;
  ld.global.u16 %rs1, [%rd1+100]; st.global.u16 [%rd2+100], %rs1;
  ret;
}
.visible .entry frame(.param .u64 p, .param .u32 i) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>; .local .align 16 .b8 numbers[64];
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [i];
  mov.u64 %rd2, numbers; cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd2, %rd3;
  ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+4];
  st.local.u32 [%rd2], %r2; st.local.u32 [%rd2+32], %r3; ld.local.u32 %r4, [%rd3];
  st.global.u32 [%rd1], %r4; ret;
}
.visible .entry divide64(.param .u64 p) {
  .reg .b64 %rd<5>; .reg .b32 %r<5>;
  ld.param.u64 %rd1, [p];
  ld.global.u64 %rd2, [%rd1]; ld.global.u64 %rd3, [%rd1+8];
  div.u64 %rd4, %rd2, %rd3; st.global.u64 [%rd1], %rd4; ret;
}
.visible .entry divide32(.param .u64 p) {
  .reg .b64 %rd<5>; .reg .b32 %r<5>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+4];
  div.u32 %r4, %r2, %r3; st.global.u32 [%rd1], %r4; ret;
}
.visible .entry multiplies(.param .u64 p) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>; .reg .f32 %f<5>; .shared .align 16 .b8 matrices[512];
  ld.param.u64 %rd1, [p]; ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1]; mov.u32 %r1, matrices;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2,%r3,%r4,%r5}, [%r1];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r2,%r3,%r4,%r5}, {%r2,%r4},
    {%f1,%f2,%f3,%f4};
  st.global.v4.f32 [%rd1], {%f1,%f2,%f3,%f4}; ret;
}
.visible .entry waits(.param .u64 p) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>;
  griddepcontrol.wait;
  ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], %r1; ret;
}
.visible .entry waits_late(.param .u64 p) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [p]; ld.volatile.global.u32 %r1, [%rd1];
  griddepcontrol.wait;
  st.global.u32 [%rd1+4], %r1; ret;
}
.visible .entry leaves(.param .u32 i) {
  .reg .b32 %r<9>; .reg .pred %p<2>;
  ld.param.u32 %r1, [i]; setp.eq.u32 %p1, %r1, 3; @%p1 exit;
  griddepcontrol.wait; ret;
}
"""

# Kernels that move what they read and write in packs, as (name, most registers): of each the variants of 4 or 8 elements
# a pack. Up to 80 registers three blocks of 256 threads stand on an SM.
PACKED = [
    (r"batchnorm2d_(normalize|inference)_kernel", 64),
    (r"batchnorm2d_(moments|gradient_sums|combine)_kernel", 80),
    (r"batchnorm2d_(forward|backward)_at_once_kernel", 128),
    (r"groupnorm_normalize_kernel", 80),
    (r"groupnorm_(moments|gradient_sums|combine|forward_at_once|backward_at_once)_kernel", 128),
    (r"layernorm_forward_kernel", 80),
    (r"layernorm_(backward|backward_at_once|gradient_sums)_kernel", 128),
    (r"global_avgpool_(forward|backward)_kernel", 64),
    (r"(max|avg)pool2d_(forward|backward)_kernel", 64),
    (r"(adaptive_avgpool2d|upsample|pad)_(forward|backward)_kernel", 64),
    (r"position_embedding_(forward|backward)_kernel", 64),
    (r"add_bias_kernel", 64),
    (r"depthwise_conv2d_(gather|weight_sums)_kernel", 128),
    (r"elementwise_kernel", 64),
]
# What packs of other kernels are moved by, and how often at least. A tensor's odd end is moved one by one.
MOVED = [
    (r"cast_kernel<.*, true>", {"LDG.128": 1, "STG.128": 1}),
    (r"dropout_kernel<float, true>", {"LDG.128": 1, "STG.128": 1}),
    (r"dropout_kernel<__\w+, true>", {"LDG": 1, "STG.64": 1}),  # four elements, which one block of Philox serves
    (r"embedding_forward_kernel<\w+, \w+, [48]>", {"LDG.128": 1, "STG.128": 1}),
    (r"bias_gradient_kernel<\w+, [48], ", {"LDG.128": 4}),
    (r"update_kernel<SgdRule, 1", {"LDG.128": 3, "STG.128": 2}),
    (r"update_kernel<AdamRule", {"LDG.128": 4, "STG.128": 3}),
    (r"update_of_types_kernel<SgdRule, 1, false", {"LDG.128": 9, "STG.128": 9}),
    (r"update_of_types_kernel<AdamRule, 2, false", {"LDG.128": 9, "STG.128": 9}),
]
# Beside packs they store single numbers: of the statistics of a channel or a row, a parameter's gradient, or the bytes
# of a mask.
SINGLE_STORES = r"at_once|layernorm_forward|layernorm_gradient_sums|maxpool2d_forward"
# Local accesses that are allowed, and why.
LOCAL = [
    (r"batchnorm2d_moments_kernel<\w+, 8>", 8, "addresses, before and after the loop over 16 rows"),
    (r"batchnorm2d_gradient_sums_kernel<\w+, 8>", 2, "one number of 80 registers' worth and one more"),
    (r"groupnorm_forward_at_once_kernel<float, 4>", 4, "around the square root's subroutine, once a group"),
    (r"batchnorm2d_add_moments_kernel", 2, "one number, before and after the loop over parts"),
    (r"batchnorm2d_statistics_kernel", 2, "around the square root's subroutine, once a channel"),
    (r"upsample_backward_kernel<\w+, 8, true>", 4, "an address, before and after the loops"),
    (r"avgpool2d_backward_kernel<\w+, 8>", 40, "around the subroutine for the reciprocal of a window's size"),
]
# Losses over a batch's few outputs, and the update of 8-bit moments, which looks codes up.
NOT_BOUND_BY_MEMORY = r"update_of_types_kernel<\w+, \d, true|cross_entropy|numeric_loss"


def packed(name):
    match = re.search(r"_kernel<(?:\(int\))?(\w+), (?:\(int\))?(\d+)|elementwise_kernel<(?:\(int\))?(\d+),", name)
    return bool(match) and int(match[2] or match[3]) in (4, 8)


class Decoder(unittest.TestCase):
    def test_it_sees_the_instructions_that_ptxas_was_told_to_make(self):
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = os.path.join(folder, "probe.ptx"), os.path.join(folder, "probe.cubin")
            with open(source, "w", encoding="utf-8") as file:
                file.write(PROBE)
            subprocess.run([PTXAS, "-arch=sm_90", source, "-o", cubin], check=True)
            kernels = {k.name: k for k in kernel_code.kernels_of(cubin)}
        accesses = kernels["accesses"]
        for width in (128, 64, 32, 16):
            self.assertEqual(accesses.count("LDG.%d" % width), 1, width)
            self.assertEqual(accesses.count("STG.%d" % width), 1, width)
        self.assertEqual(accesses.count("LDL", "STL"), 0)
        self.assertGreaterEqual(accesses.registers, 8)
        self.assertGreater(kernels["frame"].count("LDL"), 0)
        self.assertGreater(kernels["frame"].count("STL"), 0)
        self.assertGreater(kernels["divide64"].count("DIV64"), 0)
        self.assertEqual(kernels["divide32"].count("DIV64"), 0)
        self.assertEqual(kernels["multiplies"].count("HMMA"), 1)
        self.assertEqual(kernels["multiplies"].count("LDSM"), 1)
        self.assertEqual(accesses.count("HMMA", "LDSM"), 0)
        for name, too_early in (("waits", ""), ("waits_late", "LDG"), ("leaves", "EXIT"), ("accesses", "LDG")):
            self.assertEqual(kernels[name].too_early, too_early, name)

    def test_what_newer_architectures_do_is_left_out_for_the_oldest(self):
        source = """
            #include "cuda/launch/tensor_cores.h"
            using namespace trainer::cuda;
            __global__ void oldest_kernel(float* c) {
              wait_for_earlier_kernels();
              FragmentSums sums[1][2] = {};
              const Fragment a[1] = {}, b[1] = {};
              if (c[0] > 0) multiply_add<__half>(sums, a, b);
              c[threadIdx.x] = sums[0][0].values[0];
            }"""
        with tempfile.TemporaryDirectory() as folder:
            path, cubin = os.path.join(folder, "oldest.cu"), os.path.join(folder, "oldest.cubin")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            nvcc = os.path.join(os.path.dirname(PTXAS), "nvcc")
            subprocess.run([nvcc, "-std=c++20", "-arch=sm_75", "-cubin", "-I", ROOT, path, "-o", cubin], check=True)
            kernel, = kernel_code.kernels_of(cubin, 75)
        self.assertEqual(kernel.count("HMMA"), 0)


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = kernel_code.kernels_of(MODULE)
        if not cls.kernels:
            print("SKIPPED: the module is not built for sm_90")
            sys.exit(77)

    def matching(self, pattern):
        found = [k for k in self.kernels if re.match(pattern, k.name)]
        self.assertTrue(found, pattern)
        return found

    def test_every_kernel_is_found_with_its_registers(self):
        self.assertGreater(len(self.kernels), 200)
        for kernel in self.kernels:
            self.assertIsNotNone(kernel.registers, kernel.name)

    def test_every_kernel_waits_for_earlier_ones_before_it_touches_memory_or_ends(self):
        # Note [Early start] in cuda/launch/launch.h. The compiler may move what it takes for constant, a load of
        # `const T* __restrict__`, to the front of a kernel, so the source alone does not tell.
        for kernel in self.kernels:
            with self.subTest(kernel.name):
                self.assertEqual(kernel.too_early, "")

    def test_packs_are_read_and_written_by_128_bits_within_the_registers(self):
        for pattern, registers in PACKED:
            kernels = [k for k in self.matching(pattern) if packed(k.name)]
            self.assertGreaterEqual(len(kernels), 3, pattern)
            for kernel in kernels:
                with self.subTest(kernel.name):
                    self.assertGreater(kernel.count("LDG.128"), 0)
                    self.assertGreater(kernel.count("STG.128"), 0)
                    self.assertLessEqual(kernel.registers, registers)
                    if not re.search(SINGLE_STORES, kernel.name) and "elementwise" not in kernel.name:
                        self.assertEqual(kernel.count("STG.32", "STG.16"), 0)

    def test_packs_of_other_kernels_are_moved_at_once(self):
        for pattern, moves in MOVED:
            for kernel in self.matching(pattern):
                for move, least in moves.items():
                    with self.subTest(kernel.name, move=move):
                        self.assertGreaterEqual(kernel.count(move), least)

    def test_numbers_of_channels_are_read_in_packs(self):
        for pattern in (r"batchnorm2d_(normalize|inference|moments|gradient_sums|combine)_kernel",
                        r"layernorm_forward_kernel"):
            for kernel in filter(lambda k: packed(k.name), self.matching(pattern)):
                with self.subTest(kernel.name):
                    self.assertEqual(kernel.count("LDG.32", "LDG.16"), 0)

    def test_the_gradient_of_layer_norm_reads_its_operands_once(self):
        for kernel in self.matching(r"layernorm_backward_at_once_kernel<\w+, [48], "):
            width, num_packs = (int(re.search(r"<\w+, (\d+), \d+, (\d+)>", kernel.name)[i]) for i in (1, 2))
            # dy and x stand in the code twice where the next row is loaded ahead; the weights are f32.
            operands = 2 * (2 if num_packs * 4 <= 8 else 1) + 1 + width // 4
            with self.subTest(kernel.name):
                self.assertEqual(kernel.count("LDG.128"), operands * num_packs)

    def test_batch_norm_combines_two_tensors_to_one(self):
        for kernel in self.matching(r"batchnorm2d_combine_kernel<\w+, [48]>"):
            words = int(re.search(r", (\d)>", kernel.name)[1]) // 4
            with self.subTest(kernel.name):
                # Four numbers and a pair for each channel; of two rows at once and of one.
                self.assertEqual(kernel.count("LDG.128"), 6 * words + 2 * 3)
                self.assertEqual(kernel.count("STG.128"), 3)

    def test_pools_divide_no_64_bit_numbers(self):
        for kernel in self.matching(r"(maxpool2d|avgpool2d|global_avgpool|upsample|pad)_"):
            with self.subTest(kernel.name):
                self.assertEqual(kernel.count("DIV64"), 0)

    def test_attention_in_16_bits_multiplies_by_tensor_cores(self):
        for pattern, products in ((r"attention_forward_mma_kernel", 2), (r"attention_query_gradient_mma_kernel", 3),
                                  (r"attention_key_gradient_mma_kernel", 4)):
            for kernel in self.matching(pattern):
                width = int(re.search(r"(\d+)>$", kernel.name)[1])
                with self.subTest(kernel.name):
                    # Of 16 rows of a warp by 32 others at least, in steps of 16 by 8 by 16; each warp's product once.
                    self.assertGreaterEqual(kernel.count("HMMA"), products * width // 16 * 4)
                    self.assertGreater(kernel.count("LDSM"), 0)
                    self.assertLessEqual(kernel.count("HMMA") / kernel.count("LDSM"), 8)
                    self.assertLessEqual(kernel.shared, (48 + 1) * 1024)  # of which 1 KiB is the system's

    def test_no_kernel_that_memory_bounds_keeps_anything_in_local_memory(self):
        for kernel in self.kernels:
            if re.search(NOT_BOUND_BY_MEMORY, kernel.name):
                continue
            with self.subTest(kernel.name):
                allowed = max([most for pattern, most, _ in LOCAL if re.match(pattern, kernel.name)], default=0)
                self.assertLessEqual(kernel.count("LDL", "STL"), allowed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
