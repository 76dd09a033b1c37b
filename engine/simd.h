#pragma once

/// Compiles the function once for each level of x86-64 (AVX-512, AVX2 and FMA, SSE2); the loader picks what the
/// machine has. It must not be a template nor hold an OpenMP parallel region, whose body would not be cloned.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRAINER_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAINER_SIMD
#endif
/// For functions called from a TRAINER_SIMD loop.
#define TRAINER_SIMD_INLINE [[gnu::always_inline]] inline
