#include "engine/train/measure/calibration_networks.h"

#include <algorithm>

#include "engine/embedded_files.h"

namespace trainer {

std::vector<CalibrationNetwork> calibration_networks() {
  std::vector<CalibrationNetwork> networks;
  for (const EmbeddedFile& file : calibration_network_files()) {
    std::string name(file.name.substr(file.name.find('_') + 1));  // behind its number
    std::replace(name.begin(), name.end(), '_', ' ');
    networks.push_back({std::move(name), file.text});
  }
  return networks;
}

}  // namespace trainer
