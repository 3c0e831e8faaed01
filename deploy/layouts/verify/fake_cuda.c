// Stands in for CUDA and NCCL, so that PyTorch's own code issues collectives on a machine without a GPU. One "device" whose
// memory is the heap; nothing is ever computed. Events are done at once until fake_cuda_hang(1) is called, and never
// afterwards, as on a GPU that waits for a peer. What stands in neither this file nor PyTorch returns 0: see stand_in.py.
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_READY = 600 };

static int hangs;

void fake_cuda_hang(int yes) { hangs = yes; }

static int put(void *where, int value) {
    memcpy(where, &value, sizeof value);
    return SUCCESS;
}

static int handle(void **where) {
    *where = calloc(1, 64);
    return SUCCESS;
}

// The device.
int cudaGetDeviceCount(int *count) { return put(count, 1); }
int cudaGetDevice(int *device) { return put(device, 0); }
int cudaDriverGetVersion(int *version) { return put(version, 13000); }
int cudaRuntimeGetVersion(int *version) { return put(version, 13000); }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { return put(value, 1); }
int cudaDeviceCanAccessPeer(int *yes, int device, int peer) { return put(yes, 0); }
const char *cudaGetErrorString(int error) { return "an error of the stand-in"; }
const char *cudaGetErrorName(int error) { return "standIn"; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return put(least, 0) + put(greatest, -1); }
static int nothing(void) { return SUCCESS; }
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, long flags, int *found) {
    *function = (void *)nothing;
    return found ? put(found, 0) : SUCCESS;
}
int cudaGetDriverEntryPoint(const char *name, void **function, long flags, int *found) {
    return cudaGetDriverEntryPointByVersion(name, function, 0, flags, found);
}
int cudaMemGetInfo(size_t *free, size_t *total) {
    *free = *total = (size_t)1 << 34;
    return SUCCESS;
}
// cudaDeviceProp, whose beginning is the same in CUDA 12 and 13.
int cudaGetDeviceProperties(char *properties, int device) {
    memset(properties, 0, 800);
    strcpy(properties, "stand-in");
    *(size_t *)(properties + 288) = (size_t)1 << 34;
    put(properties + 308, 32);
    put(properties + 320, 1024);
    put(properties + 360, 9);
    put(properties + 384, 1);
    return put(properties + 388, 1);
}
int cudaGetDeviceProperties_v2(char *properties, int device) { return cudaGetDeviceProperties(properties, device); }

// Memory, streams, events.
int cudaMalloc(void **memory, size_t size) { return posix_memalign(memory, 512, size) ? 2 : SUCCESS; }
int cudaHostAlloc(void **memory, size_t size, unsigned flags) { return cudaMalloc(memory, size); }
int cudaMallocHost(void **memory, size_t size) { return cudaMalloc(memory, size); }
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return handle(stream); }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { return handle(stream); }
int cudaStreamIsCapturing(void *stream, int *status) { return put(status, 0); }
int cudaStreamGetCaptureInfo_v2(void *stream, int *status) { return put(status, 0); }
int cudaStreamGetCaptureInfo_v3(void *stream, int *status) { return put(status, 0); }
int cudaStreamGetCaptureInfo(void *stream, int *status) { return put(status, 0); }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return SUCCESS; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { return handle(event); }
int cudaEventCreate(void **event) { return handle(event); }
int cudaEventQuery(void *event) { return hangs ? NOT_READY : SUCCESS; }
int cudaEventElapsedTime(float *milliseconds, void *start, void *end) {
    *milliseconds = 1.5F;
    return SUCCESS;
}

// NCCL.
int ncclGetVersion(int *version) { return put(version, 22705); }
int ncclGetUniqueId(char *id) {
    memset(id, 7, 128);
    return SUCCESS;
}
struct id { char bytes[128]; };
struct comm { int size, rank; };
static int comm(struct comm **where, int size, int rank) {
    *where = malloc(sizeof **where);
    **where = (struct comm){size, rank};
    return SUCCESS;
}
int ncclCommInitRank(struct comm **where, int size, struct id id, int rank) { return comm(where, size, rank); }
int ncclCommInitRankConfig(struct comm **where, int size, struct id id, int rank, void *config) {
    return comm(where, size, rank);
}
int ncclCommInitRankScalable(struct comm **where, int size, int rank, int ids, void *id, void *config) {
    return comm(where, size, rank);
}
int ncclCommSplit(struct comm *whole, int color, int key, struct comm **where, void *config) {
    return comm(where, whole->size, key);
}
int ncclCommCount(struct comm *comm, int *size) { return put(size, comm->size); }
int ncclCommUserRank(struct comm *comm, int *rank) { return put(rank, comm->rank); }
int ncclCommCuDevice(struct comm *comm, int *device) { return put(device, 0); }
int ncclCommGetAsyncError(void *comm, int *error) { return put(error, 0); }
const char *ncclGetErrorString(int error) { return "an error of the stand-in"; }
const char *ncclGetLastError(void *comm) { return ""; }
