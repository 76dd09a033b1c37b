#pragma once
// See Note [Kernels on the host] in cuda/launch/launch.h.
