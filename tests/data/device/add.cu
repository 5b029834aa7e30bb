// The device code that the audit's tests read. Small on purpose.
__device__ __noinline__ int twice(int value) { return value + value; }

extern "C" __global__ void add(int *out, int value) { out[threadIdx.x] += twice(value); }
