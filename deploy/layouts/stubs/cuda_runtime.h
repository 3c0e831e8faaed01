// What a host compiler uses of it.
#pragma once
#include <cuda_runtime_api.h>
