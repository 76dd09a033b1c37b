#include "cuda/launch/host_launch.h"
