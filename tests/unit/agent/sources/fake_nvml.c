/* A library that speaks NVML's interface and tells of four made-up GPUs. It misbehaves by the name of the folder that it
 * lies in: `hang` lets the first call hang, `absent` says that no driver is loaded, `crash` ends the process. Argument
 * layouts as in nvml.h of driver 535. GPU 2 is lost, GPU 3 is slowed down and has bad memory. */
#include <stdlib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, NO_DRIVER = 9, LOST = 15 };
typedef struct { int index; } *device;
static struct { int index; } devices[4] = {{0}, {1}, {2}, {3}};

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } pci;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, part; } process;

int nvmlInitWithFlags(unsigned flags) {
    const char *how = getenv("LD_LIBRARY_PATH");
    if (how && strstr(how, "/hang")) for (;;) pause();
    if (how && strstr(how, "/crash")) abort();
    return how && strstr(how, "/absent") ? NO_DRIVER : OK;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "Driver Not Loaded"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { snprintf(to, size, "999.1"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *to) { *to = (device)&devices[index]; return OK; }
int nvmlDeviceGetUUID(device of, char *to, unsigned size) { snprintf(to, size, "GPU-%d", of->index); return OK; }
int nvmlDeviceGetName(device of, char *to, unsigned size) { snprintf(to, size, "Made-up 9000"); return OK; }
int nvmlDeviceGetPciInfo_v3(device of, pci *to) {
    memset(to, 0, sizeof *to); to->domain = 0; to->bus = 0x3b + of->index; to->device = 0; return OK;
}
int nvmlDeviceGetUtilizationRates(device of, utilization *to) {
    if (of->index == 2) return LOST;
    to->gpu = of->index == 0 ? 100 : 0; to->memory = 5; return OK;
}
int nvmlDeviceGetMemoryInfo(device of, memory *to) {
    to->total = 80ull << 30; to->used = 10ull << 30; to->free = 70ull << 30; return OK;
}
int nvmlDeviceGetPowerUsage(device of, unsigned *to) { *to = 123456; return OK; }
int nvmlDeviceGetTemperature(device of, int sensor, unsigned *to) { *to = 61; return OK; }
int nvmlDeviceGetClockInfo(device of, int kind, unsigned *to) { *to = kind == 1 ? 345 : 1; return OK; }
int nvmlDeviceGetMaxClockInfo(device of, int kind, unsigned *to) { *to = kind == 1 ? 1980 : 1; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(device of, unsigned long long *to) {
    *to = of->index == 3 ? 0x48 : 0x04; return OK;
}
int nvmlDeviceGetTotalEccErrors(device of, int kind, int counter, unsigned long long *to) {
    if (kind != 1 || counter != 0) return INVALID;
    *to = of->index == 3 ? 7 : 0; return OK;
}
int nvmlDeviceGetRemappedRows(device of, unsigned *a, unsigned *b, unsigned *pending, unsigned *failed) {
    *a = *b = *failed = 0; *pending = of->index == 3; return OK;
}
int nvmlDeviceGetNvLinkState(device of, unsigned link, unsigned *to) {
    if (link >= 4) return INVALID;
    *to = !(of->index == 1 && link == 2); return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device of, unsigned *count, process *to) {
    unsigned there = of->index == 0 ? 2 : 0;
    if (there == 0) { *count = 0; return OK; }
    if (to == NULL || *count < there) { *count = there; return TOO_SMALL; }
    for (unsigned at = 0; at < there; at++) {
        to[at].pid = 4242 + at; to[at].used = 1ull << 30; to[at].instance = to[at].part = 0xFFFFFFFF;
    }
    *count = there;
    return OK;
}
