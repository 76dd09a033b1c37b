#pragma once

namespace trainer {

/// Note [Waiting threads]
/// OpenMP's threads wait for each other by spinning, GNU's for up to 300,000 rounds, some hundred microseconds: beside
/// other busy processes they burn the time of the core on which the thread they wait for should run, and a step takes
/// many times as long. After a short spin they sleep instead, which costs nothing measurable on an idle machine
/// (scripts/bench_cpu.sh --busy). GNU's library reads GOMP_SPINCOUNT before main begins, so the process replaces itself
/// by itself with the variable set. It is left as it is where the user has set it or OMP_WAIT_POLICY, and where the
/// system cannot replace it (/proc is missing): then threads spin as the library has it, and `trainer doctor` says so.
///
/// Called once, by commands that compute, before anything is read or written. Returns only where nothing is to be done.
void bound_spinning();

/// How threads wait in this process, for people: "spin briefly, then sleep".
const char* waiting_of_threads();

}  // namespace trainer
