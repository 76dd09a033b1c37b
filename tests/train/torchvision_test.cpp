#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/torchvision_networks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("Logits, loss and gradients of torchvision's networks and of U-Nets are PyTorch's on the CPU") {
  const auto device = make_cpu_device(2);
  for (const char* name : {"resnet18", "resnet50", "vgg16_narrow", "mobilenetv2", "unet", "unet_bilinear"})
    check_torchvision_network(*device, name);
}
