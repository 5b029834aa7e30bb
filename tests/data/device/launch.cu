// A second unit, so that a library has more than one container.
extern "C" __global__ void scale(float *out, float factor) { out[threadIdx.x] *= factor; }
