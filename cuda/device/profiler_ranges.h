#pragma once

namespace trainer::cuda {

/// Names stretches of the run for Nsight, in the domain "trainer". Costs a test of one pointer where nothing listens.
void push_profiler_range(const char* name);
void pop_profiler_range();

}  // namespace trainer::cuda
