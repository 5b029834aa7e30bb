#include "tinymath.cuh"

__global__ void shift(float* data, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = tinymath::fused(data[i], 1.0f, by);
}

extern "C" void launch_shift(float* data, float by, int n) { shift<<<(n + 255) / 256, 256>>>(data, by, n); }

extern "C" int nvshmemx_init();
extern "C" int with_nvshmem() { return nvshmemx_init(); }
