// Kernels that do no work on some arch, as guards in real projects leave them.
#include <cassert>
#include <cstdio>

extern "C" __global__ void works(int *out, int value) { out[threadIdx.x] = value; }

extern "C" __global__ void nothing(int *) {}

extern "C" __global__ void guarded(int *out, int value) {
#if __CUDA_ARCH__ == 900
  out[threadIdx.x] = value + 1;
#else
  printf("this kernel is for sm_90a only\n");
  __trap();
#endif
}

extern "C" __global__ void asserts(int *out, int value) {
#if __CUDA_ARCH__ == 900
  out[threadIdx.x] = value + 2;
#else
  assert(false);
#endif
}
