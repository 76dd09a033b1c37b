#include "cli/device_rates.h"

#include <thread>

namespace trainer {

MachineRates rates_of(const Device&) {
  return assumed_cpu_rates(static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace trainer
