// Stands in for NVIDIA's management library, for whoever watches a lab's job, and for a real NCCL: it tells of the devices what the stand-in for
// the runtime has written into the job's folder (cudart.c), and what a script says otherwise. The folder is LAB_FOLDER, else
// where this library was found by its name: a reader may not pass our variables on.
//
// A device with a kernel that computes is fully used at 620 W; one with only kernels of NCCL that wait, at 180 W, which is
// what they take on an H100; one with neither is idle at 75 W. The file `gpus` there has lines `INDEX WHAT NUMBER`, with WHAT
// one of `lost` (15 and 16: what NVML returns), `util`, `watts`, `mhz`, `celsius`, `slowed` (its bits), `ecc`, `pending`,
// `failed` (rows), `linksdown`.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LINKS = 18 };
enum { WATTS_IDLE = 75, WATTS_SPINS = 180, WATTS_COMPUTES = 620, MHZ_IDLE = 345, MHZ_MOST = 1980 };

static const char *folder(void) {
    static char found[512];
    Dl_info mine;
    const char *given = getenv("LAB_FOLDER");
    if (given && *given) return given;
    if (!*found && dladdr((void *)folder, &mine)) {
        snprintf(found, sizeof found, "%s", mine.dli_fname);
        char *end = strrchr(found, '/');
        if (end) *end = 0;
    }
    return found;
}

static int index_of(const void *device) { return (int)(long)device - 1; }

// Returns what the script says of a device, else what is given.
static long scripted(const void *device, const char *what, long otherwise) {
    char path[600], word[32];
    long index, number;
    snprintf(path, sizeof path, "%s/gpus", folder());
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%ld %31s %li", &index, word, &number) == 3) {
        if (index == index_of(device) && !strcmp(word, what)) otherwise = number;
    }
    if (file) fclose(file);
    return otherwise;
}

// Calls `each` for every living process of a device.
static int of_device(const void *device, struct gpu_state *states, int room) {
    char start[32], path[900];
    int count = 0;
    DIR *all = opendir(folder());
    int length = snprintf(start, sizeof start, "lab-gpu-%d-", index_of(device));
    for (struct dirent *one; all && (one = readdir(all));) {
        if (strncmp(one->d_name, start, (size_t)length) || count == room) continue;
        snprintf(path, sizeof path, "%s/%s", folder(), one->d_name);
        FILE *file = fopen(path, "r");
        if (file && fread(&states[count], sizeof *states, 1, file) == 1 && !kill(states[count].pid, 0)) count++;
        if (file) fclose(file);
    }
    if (all) closedir(all);
    return count;
}

enum { IDLE, SPINS, COMPUTES };
static int doing(const void *device) {
    struct gpu_state states[64];
    int most = IDLE;
    for (int i = of_device(device, states, 64); i-- > 0;) {
        int now = states[i].computes ? COMPUTES : states[i].spins ? SPINS : IDLE;
        if (now > most) most = now;
    }
    return most;
}

#define REACHED(device) \
    do { \
        int lost = (int)scripted(device, "lost", 0); \
        if (lost) return lost; \
    } while (0)

int nvmlInit_v2(void) { return OK; }
int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int error) {
    return error == 15 ? "GPU is lost" : error == 16 ? "GPU requires restart" : error == NOT_SUPPORTED ? "Not Supported" : "Error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned room) { return snprintf(text, room, "580.65.06"), OK; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    const char *given = getenv("LAB_DEVICES");
    return *count = given ? (unsigned)atoi(given) : 8, OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = (void *)(long)(index + 1), OK; }
int nvmlDeviceGetIndex(void *device, unsigned *index) { return *index = (unsigned)index_of(device), OK; }
int nvmlDeviceGetName(void *device, char *text, unsigned room) {
    REACHED(device);
    return snprintf(text, room, "NVIDIA H100 (stand-in)"), OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned room) {
    return snprintf(text, room, "GPU-%08x-0000-0000-0000-000000000000", index_of(device) + 1), OK;
}
struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 16 + (unsigned)index_of(device); // as the runtime's stand-in has it
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    REACHED(device);
    memory[0] = 80ULL << 30, memory[1] = 40ULL << 30, memory[2] = 40ULL << 30;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
    REACHED(device);
    return rates[0] = (unsigned)scripted(device, "util", doing(device) == IDLE ? 0 : 100), rates[1] = 0, OK;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    static const int watts[] = {WATTS_IDLE, WATTS_SPINS, WATTS_COMPUTES};
    REACHED(device);
    return *milliwatts = 1000 * (unsigned)scripted(device, "watts", watts[doing(device)]), OK;
}
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatts) { return *milliwatts = 700000, OK; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    REACHED(device);
    return *celsius = (unsigned)scripted(device, "celsius", 30 + 15 * doing(device)), OK;
}
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) {
    REACHED(device);
    return *mhz = (unsigned)scripted(device, "mhz", doing(device) == IDLE ? MHZ_IDLE : MHZ_MOST), OK;
}
int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz) { return *mhz = MHZ_MOST, OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) {
    REACHED(device);
    return *bits = (unsigned long long)scripted(device, "slowed", doing(device) == IDLE), OK; // 1: idle
}
int nvmlDeviceGetTotalEccErrors(void *device, int which, int counter, unsigned long long *count) {
    REACHED(device);
    return *count = (unsigned long long)scripted(device, "ecc", 0), OK;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    REACHED(device);
    *pending = (unsigned)scripted(device, "pending", 0), *failed = (unsigned)scripted(device, "failed", 0);
    return *corrected = 0, *uncorrected = *pending + *failed, OK;
}
struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, part;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes) {
    struct gpu_state states[64];
    REACHED(device);
    int found = of_device(device, states, 64), room = (int)*count;
    *count = (unsigned)found;
    if (found > room) return INSUFFICIENT_SIZE;
    for (int i = 0; i < found; i++) processes[i] = (struct process){(unsigned)states[i].pid, 40ULL << 30, ~0u, ~0u};
    return OK;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *up) {
    REACHED(device);
    return link < LINKS ? (*up = link >= (unsigned)scripted(device, "linksdown", 0), OK) : INVALID_ARGUMENT;
}

// ---- What a real NCCL asks besides: each device by itself, reached through the host's memory.

int nvmlInit(void) { return OK; }
int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }
int nvmlDeviceGetHandleByIndex(unsigned index, void **device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }
int nvmlDeviceGetHandleByPciBusId(const char *bus, void **device) {
    unsigned domain, number;
    if (sscanf(bus, "%x:%x", &domain, &number) != 2) return INVALID_ARGUMENT;
    return nvmlDeviceGetHandleByIndex_v2(number - 0x10, device);
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { return *major = 9, *minor = 0, OK; }
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status) { return *status = 1, OK; }
int nvmlDeviceGetNvLinkCapability(void *device, unsigned link, int what, unsigned *can) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo(void *device, unsigned link, void *pci) { return NOT_SUPPORTED; }
int nvmlDeviceGetFieldValues(void *device, int count, void *values) { return NOT_SUPPORTED; }
int nvmlDeviceGetPciInfoExt(void *device, void *pci) { return NOT_SUPPORTED; }
int nvmlDeviceGetPcieLinkMaxSpeed(void *device, unsigned *megabytes) { return *megabytes = 32000, OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation) { return *generation = 5, OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes) { return *lanes = 16, OK; }
int nvmlDeviceGetGpuFabricInfoV(void *device, void *fabric) { return NOT_SUPPORTED; }
int nvmlDeviceGetPlatformInfo(void *device, void *platform) { return NOT_SUPPORTED; }
int nvmlSystemGetConfComputeState(void *state) { return NOT_SUPPORTED; }
int nvmlSystemGetConfComputeSettings(void *settings) { return NOT_SUPPORTED; }
