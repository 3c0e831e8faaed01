// Stands in for CUDA's driver: one primary context per device, already active. The rest returns CUDA_ERROR_NOT_SUPPORTED.
#include <stddef.h>

enum { SUCCESS = 0 };

static int context;

int cuInit(unsigned flags) { return SUCCESS; }
int cuDeviceGet(int *device, int number) { return *device = number, SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = 1, SUCCESS; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *flags = 0, *active = 1, SUCCESS; }
int cuDevicePrimaryCtxRetain(void **where, int device) { return *where = &context, SUCCESS; }
int cuCtxGetCurrent(void **where) { return *where = &context, SUCCESS; }
int cuCtxSetCurrent(void *current) { return SUCCESS; }
int cuGetErrorString(int error, const char **text) { return *text = "an error of the stand-in", SUCCESS; }
