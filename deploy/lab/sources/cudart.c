// Stands in for CUDA's runtime. Device memory is memory of the host, kernels compute nothing, and streams are real: pieces
// of work in order, copies among them, events, and one thread that runs them. What is not here returns cudaErrorNotSupported (standins.py).
//
//     LAB_DEVICES    how many GPUs there are (8)
//     LAB_SYNC       `spin`, as the driver does by default, `yield`, as by default with more ranks than processors, or `sleep`
//     LAB_KERNEL_US  how long each kernel takes, in microseconds (0)
//     LAB_BLOCKS     a call that never comes back: `launch` or `query` here, `abort` in NCCL; a running program may set it
//     LAB_QUEUE      how much work waits in a stream before launches wait, too (1024)
//
// Of kernels few are known: that of torch.cuda._sleep(cycles), which takes as many nanoseconds (ten years are for ever), and
// those by which PyTorch finds out how large the objects are that ranks send each other: sums and comparisons
// of 64-bit integers.
#define _GNU_SOURCE
#include "cudart.h"
#include "gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int put(void *where, int value) {
    memcpy(where, &value, sizeof value);
    return SUCCESS;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long setting(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value && *value ? atol(value) : otherwise;
}

// ---- Streams.

struct piece {
    atomic_int refs, over;
    piece *next;
    piece *after; // a piece of another stream that must be over
    struct work work;
    double began, ended;
};

struct graph {
    struct node {
        struct node *next;
        struct work work;
    } *first, **end;
    size_t count;
    unsigned long long id;
    int closed;
};

struct stream {
    struct stream *next;
    piece *head, *tail, *last; // `last` was appended last, and may be over
    struct graph *captured;
    int device, priority;
    long waiting;
};

enum { DEVICES = 64 };
static struct stream defaults[DEVICES];
static struct stream *streams; // those made; they are never freed
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int runs;
static __thread int current;

static struct stream *stream_of(void *handle) {
    return (uintptr_t)handle > 2 ? handle : &defaults[current]; // 1 and 2 are names for the default one
}

static piece *keep(piece *one) {
    if (one) atomic_fetch_add(&one->refs, 1);
    return one;
}

void lab_give_back(piece *one) {
    if (one && atomic_fetch_sub(&one->refs, 1) == 1) free(one);
}

int lab_is_over(const piece *one) { return !one || atomic_load(&one->over); }

static void wait_a_little(void) {
    const char *how = getenv("LAB_SYNC");
    if (how && *how == 's' && how[1] == 'l') usleep(1000);
    else if (how && *how == 'y') sched_yield();
}

void lab_wait(const piece *one) {
    while (!lab_is_over(one)) wait_a_little();
}

// Goes on with the first piece of a stream. Is it over?
static int step(piece *one) {
    if (one->after && !lab_is_over(one->after)) return 0;
    if (!one->began) {
        one->began = now();
        if (one->work.begin) one->work.begin(one->work.what);
    }
    const struct work *work = &one->work;
    if (work->is_over ? !work->is_over(work->what) : work->seconds < 0 || now() < one->began + work->seconds) return 0;
    one->ended = now();
    atomic_store(&one->over, 1);
    return 1;
}

static int drain(struct stream *stream) {
    int ended = 0;
    for (piece *one; (one = stream->head) && step(one); ended = 1) {
        stream->head = one->next;
        if (!one->next) stream->tail = NULL;
        stream->waiting--;
        lab_give_back(one->after);
        one->after = NULL;
        lab_give_back(one);
    }
    return ended;
}

// What the devices do, for whoever asks NVML's stand-in (nvml.c).
static void note(struct gpu_state *state, const struct stream *stream) {
    if (stream->last) state->pid = getpid();
    if (!stream->head || !stream->head->began) return;
    if (stream->head->work.is_over) state->spins = 1;
    else state->computes = 1;
}

static void tell_of_devices(void) {
    static struct gpu_state told[DEVICES];
    struct gpu_state now[DEVICES] = {0};
    const char *folder = getenv("LAB_FOLDER");
    for (int device = 0; device < DEVICES; device++) note(&now[device], &defaults[device]);
    for (struct stream *one = streams; one; one = one->next) note(&now[one->device], one);
    for (int device = 0; folder && device < DEVICES; device++) {
        if (!memcmp(&now[device], &told[device], sizeof *now)) continue;
        char path[600];
        told[device] = now[device];
        snprintf(path, sizeof path, "%s/lab-gpu-%d-%d", folder, device, (int)getpid());
        int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0) continue;
        pwrite(file, &now[device], sizeof *now, 0);
        close(file);
    }
}

// The devices. This thread takes next to nothing of a processor, for a GPU's work takes nothing.
static void *devices(void *unused) {
    pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
    pthread_mutex_lock(&lock);
    for (int idle = 0;;) {
        int ended = 0, left = 0;
        for (int i = 0; i < DEVICES; i++) ended |= drain(&defaults[i]), left |= defaults[i].head != NULL;
        for (struct stream *one = streams; one; one = one->next) ended |= drain(one), left |= one->head != NULL;
        tell_of_devices();
        idle = ended ? 0 : idle + 1;
        if (!left) {
            pthread_cond_wait(&work, &lock);
            idle = 0;
        } else if (!ended) {
            pthread_mutex_unlock(&lock);
            usleep(idle < 100 ? 100 : idle < 1000 ? 2000 : 10000);
            pthread_mutex_lock(&lock);
        }
    }
    return unused;
}

void lab_blocks(const char *call) {
    static sem_t never;
    const char *named = getenv("LAB_BLOCKS");
    while (named && !strcmp(named, call)) sem_wait(&never); // as the driver waits for a thread of its own
}

static piece *append(void *handle, piece *one) {
    struct stream *stream = stream_of(handle);
    long room = setting("LAB_QUEUE", 1024);
    for (int full = 1; full;) { // a launch waits for a place, as CUDA's do
        pthread_mutex_lock(&lock);
        full = stream->waiting >= room;
        if (full) pthread_mutex_unlock(&lock), wait_a_little();
    }
    stream->waiting++;
    if (stream->tail) stream->tail->next = keep(one);
    else stream->head = keep(one);
    stream->tail = one;
    lab_give_back(stream->last);
    stream->last = keep(one);
    if (!runs) {
        pthread_t thread;
        runs = !pthread_create(&thread, NULL, devices, NULL);
    }
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return one;
}

int lab_is_captured(void *stream) { return stream_of(stream)->captured != NULL; }

piece *lab_push(void *stream, struct work work) {
    struct graph *graph = stream_of(stream)->captured;
    if (graph) {
        struct node *node = calloc(1, sizeof *node);
        node->work = work;
        *graph->end = node, graph->end = &node->next;
        graph->count++;
        return NULL;
    }
    piece *one = calloc(1, sizeof *one);
    *one = (piece){.refs = 1, .work = work};
    return append(stream, one);
}

static void *copy_of(const void *what, size_t size) { return memcpy(malloc(size), what, size); }

static piece *last_of(struct stream *stream) {
    pthread_mutex_lock(&lock);
    piece *last = keep(stream->last);
    pthread_mutex_unlock(&lock);
    return last;
}

static int made(void **where, int priority) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->device = current;
    stream->priority = priority;
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    *where = stream;
    return SUCCESS;
}

int cudaStreamCreate(void **where) { return made(where, 0); }
int cudaStreamCreateWithFlags(void **where, unsigned flags) { return made(where, 0); }
int cudaStreamCreateWithPriority(void **where, unsigned flags, int priority) { return made(where, priority); }
int cudaStreamDestroy(void *stream) { return SUCCESS; }
int cudaStreamGetPriority(void *stream, int *priority) { return put(priority, stream_of(stream)->priority); }

int cudaStreamQuery(void *stream) {
    piece *last = last_of(stream_of(stream));
    int over = lab_is_over(last);
    lab_give_back(last);
    return over ? SUCCESS : NOT_READY;
}

static int synchronize(struct stream *stream) {
    piece *last = last_of(stream);
    lab_wait(last);
    lab_give_back(last);
    return SUCCESS;
}

int cudaStreamSynchronize(void *stream) { return synchronize(stream_of(stream)); }

int cudaDeviceSynchronize(void) {
    synchronize(&defaults[current]);
    for (struct stream *one = streams; one; one = one->next) {
        if (one->device == current) synchronize(one);
    }
    return SUCCESS;
}

// ---- Events: the piece that was last in its stream when one was recorded.

struct event {
    piece *recorded;
    struct graph *captured; // recorded while this was made
};

int cudaEventCreateWithFlags(void **where, unsigned flags) {
    *where = calloc(1, sizeof(struct event));
    return SUCCESS;
}
int cudaEventCreate(void **where) { return cudaEventCreateWithFlags(where, 0); }

int cudaEventDestroy(struct event *event) {
    lab_give_back(event->recorded);
    free(event);
    return SUCCESS;
}

int cudaEventRecord(struct event *event, void *stream) {
    event->captured = stream_of(stream)->captured;
    piece *mark = event->captured ? NULL : lab_push(stream, (struct work){0});
    lab_give_back(event->recorded);
    event->recorded = mark;
    return SUCCESS;
}
int cudaEventRecordWithFlags(struct event *event, void *stream, unsigned flags) {
    return cudaEventRecord(event, stream);
}
int cudaEventQuery(struct event *event) {
    lab_blocks("query");
    return lab_is_over(event->recorded) ? SUCCESS : NOT_READY;
}
int cudaEventSynchronize(struct event *event) {
    lab_wait(event->recorded);
    return SUCCESS;
}
int cudaEventElapsedTime(float *milliseconds, struct event *start, struct event *end) {
    if (!start->recorded || !end->recorded) return INVALID_VALUE;
    if (!lab_is_over(start->recorded) || !lab_is_over(end->recorded)) return NOT_READY;
    *milliseconds = (float)((end->recorded->ended - start->recorded->ended) * 1e3);
    return SUCCESS;
}
int cudaStreamWaitEvent(void *stream, struct event *event, unsigned flags) {
    if (event->captured && !event->captured->closed) stream_of(stream)->captured = event->captured;
    if (lab_is_captured(stream) || lab_is_over(event->recorded)) return SUCCESS;
    piece *one = calloc(1, sizeof *one);
    *one = (piece){.refs = 1, .after = keep(event->recorded)};
    lab_give_back(append(stream, one));
    return SUCCESS;
}

// ---- Graphs: what streams were given while they were captured. At each launch all of it is appended again to one stream,
// in the order in which it was captured.

int cudaStreamBeginCapture(void *stream, int mode) {
    static atomic_ullong made;
    struct graph *graph = calloc(1, sizeof *graph);
    graph->end = &graph->first, graph->id = atomic_fetch_add(&made, 1) + 1;
    stream_of(stream)->captured = graph;
    return SUCCESS;
}
int cudaStreamEndCapture(void *stream, struct graph **where) {
    struct graph *graph = *where = stream_of(stream)->captured;
    if (!graph) return 901; // cudaErrorStreamCaptureInvalidated
    graph->closed = 1;
    pthread_mutex_lock(&lock);
    for (struct stream *one = streams; one; one = one->next) one->captured = one->captured == graph ? NULL : one->captured;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
int cudaStreamIsCapturing(void *stream, int *status) { return put(status, lab_is_captured(stream)); }
int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, struct graph **graph) {
    struct graph *captured = stream_of(stream)->captured;
    if (captured && id) *id = captured->id;
    if (captured && graph) *graph = captured;
    return put(status, captured != NULL);
}
int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, struct graph **graph) {
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph);
}
int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, struct graph **graph) {
    return cudaStreamGetCaptureInfo_v2(stream, status, id, LAB_CUDA < 13000 ? NULL : graph);
}
int cudaThreadExchangeStreamCaptureMode(int *mode) { return SUCCESS; }
int cudaGraphGetNodes(struct graph *graph, void **nodes, size_t *count) { return *count = graph->count, SUCCESS; }
int cudaGraphInstantiate(struct graph **where, struct graph *graph) { return *where = graph, SUCCESS; }
int cudaGraphInstantiateWithFlags(struct graph **where, struct graph *graph) { return *where = graph, SUCCESS; }
int cudaGraphUpload(struct graph *graph, void *stream) { return SUCCESS; }
int cudaGraphDestroy(struct graph *graph) { return SUCCESS; } // what was instantiated is the graph itself
int cudaGraphExecDestroy(struct graph *graph) { return SUCCESS; }

int cudaGraphLaunch(struct graph *graph, void *stream) {
    for (struct node *node = graph->first; node; node = node->next) {
        struct work work = node->work;
        if (work.again) work.what = work.again(work.what);
        lab_give_back(lab_push(stream, work));
    }
    return SUCCESS;
}

// ---- Kernels.

typedef struct {
    unsigned x, y, z;
} dim3;

enum kind { OTHER, SPINS, SUMS, COMPARES, ADDS, ADDS_NUMBER };
static struct {
    const void *host;
    enum kind kind;
} kernels[64];
static int kernel_count;
static __thread struct {
    dim3 grid, block;
    size_t memory;
    void *stream;
} configuration;

void **__cudaRegisterFatBinary(void *binary) { return calloc(1, 64); }
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int c, int g) {}
char __cudaInitModule(void **handle) { return 1; }
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *size) {
    enum kind kind = strstr(name, "spin_kernel") ? SPINS
        : strstr(name, "13reduce_kernel") && strstr(name, "ReduceOpIl") && strstr(name, "sum_functorIlll") ? SUMS
        : !strstr(name, "elementwise_kernel") ? OTHER
        : strstr(name, "14CompareFunctorIlEE") && strstr(name, "Lm3") ? COMPARES
        : strstr(name, "15CUDAFunctor_addIlEE") && strstr(name, "Lm3") ? ADDS
        : strstr(name, "21CUDAFunctorOnSelf_addIlEE") && strstr(name, "Lm2") ? ADDS_NUMBER
        : OTHER;
    if (kind != OTHER && kernel_count < 64) kernels[kernel_count].host = host, kernels[kernel_count++].kind = kind;
}
int __cudaGetKernel(const void **kernel, const void *host) {
    *kernel = host;
    return SUCCESS;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t memory, void *stream) {
    configuration.grid = grid, configuration.block = block;
    configuration.memory = memory, configuration.stream = stream;
    return SUCCESS;
}
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *memory, void **stream) {
    *grid = configuration.grid, *block = configuration.block;
    *memory = configuration.memory, *stream = configuration.stream;
    return SUCCESS;
}

struct integers {
    enum kind kind;
    const int64_t *from, *other;
    char *to;
    int count, how;
    int64_t number, factor;
};

static void compute(void *what) {
    struct integers *one = what;
    int64_t sum = 0;
    for (int i = 0; i < one->count; i++) {
        int64_t x = one->from[i], y = one->other ? one->other[i] : one->number, added = x + y * one->factor;
        sum += x;
        if (one->kind == COMPARES) one->to[i] = one->how == 0 ? x >= y : one->how == 1 ? x > y : one->how == 2 ? x <= y : x < y;
        else if (one->kind != SUMS) memcpy(one->to + 8 * i, &added, sizeof added);
    }
    if (one->kind == SUMS) memcpy(one->to, &sum, sizeof sum);
    free(one);
}

static void *compute_again(const void *what) { return copy_of(what, sizeof(struct integers)); }

static int is_given(const void *where);

static struct integers *integers(struct integers what) {
    if (!is_given(what.from) || !is_given(what.to)) return NULL;
    struct integers *one = malloc(sizeof *one);
    *one = what;
    return one;
}

// ATen/native/cuda/Reduce.cuh: struct ReduceOp has how many inputs and outputs there are, and later the two places.
static struct integers *sum(const char *operation) {
    const int *config = (const int *)(operation + 16);
    if (config[0] != 8 || config[2] != 1) return NULL;
    for (int at = 64; at < 1024; at += 8) {
        void *const *places = (void *const *)(operation + at);
        if (!is_given(places[0]) || !is_given(places[1])) continue;
        return integers((struct integers){SUMS, places[0], NULL, places[1], config[1]});
    }
    return NULL;
}

// ATen/native/cuda/CUDALoops.cuh: how many, the functor with its numbers, and the places of result and operands.
static struct integers *elementwise(enum kind kind, void **arguments) {
    int64_t *const *places = arguments[2], *numbers = arguments[1];
    struct integers one = {kind, places[1], NULL, (char *)places[0], *(int *)arguments[0]};
    if (kind == ADDS_NUMBER) one.number = numbers[0], one.factor = numbers[1];
    else one.other = places[2], one.factor = numbers[0], one.how = *(int *)numbers;
    return integers(one);
}

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t memory, void *stream) {
    lab_blocks("launch");
    double seconds = (double)setting("LAB_KERNEL_US", 0) / 1e6;
    enum kind kind = OTHER;
    for (int i = 0; i < kernel_count; i++) kind = kernels[i].host == function ? kernels[i].kind : kind;
    if (kind == SPINS) seconds = (double)*(int64_t *)arguments[0] / 1e9;
    struct integers *done = kind == SUMS ? sum(arguments[0]) : kind > SUMS ? elementwise(kind, arguments) : NULL;
    if (done) lab_give_back(lab_push(stream, (struct work){compute, NULL, done, seconds, compute_again}));
    else if (seconds > 0 || stream_of(stream)->head || lab_is_captured(stream))
        lab_give_back(lab_push(stream, (struct work){.seconds = seconds}));
    return SUCCESS;
}
int __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t memory, void *stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, memory, stream);
}
int cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t memory, void *stream) {
    return cudaLaunchKernel(f, grid, block, arguments, memory, stream);
}
int cudaLaunchKernelExC(const void *configuration, const void *function, void **arguments) { return SUCCESS; }

struct host_call {
    void (*call)(void *);
    void *what;
};
static void call_host(void *what) {
    struct host_call *one = what;
    one->call(one->what);
    free(one);
}
static void *call_again(const void *what) { return copy_of(what, sizeof(struct host_call)); }
int cudaLaunchHostFunc(void *stream, void (*call)(void *), void *what) {
    struct host_call *one = malloc(sizeof *one);
    *one = (struct host_call){call, what};
    lab_give_back(lab_push(stream, (struct work){.begin = call_host, .what = one, .again = call_again}));
    return SUCCESS;
}

int cudaFuncGetAttributes(char *attributes, const void *function) {
    memset(attributes, 0, 64);
    put(attributes + 24, 1024); // maxThreadsPerBlock
    put(attributes + 28, 32);   // numRegs
    put(attributes + 32, 90);   // ptxVersion, by which scans and sorts choose how they run
    put(attributes + 36, 90);   // binaryVersion
    return SUCCESS;
}
int cudaFuncSetAttribute(const void *function, int attribute, int value) { return SUCCESS; }
int cudaKernelSetAttributeForDevice(const void *kernel, int attribute, int value, int device) { return SUCCESS; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads, size_t memory) {
    return put(blocks, 2);
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads,
                                                           size_t memory, unsigned flags) {
    return put(blocks, 2);
}
int cudaGetSymbolAddress(void **where, const void *symbol) {
    *where = (void *)symbol;
    return SUCCESS;
}

// ---- Memory.

struct range {
    char *begin;
    size_t size;
    int type, device; // 1: of the host, 2: of a device
};
static struct range *ranges;
static size_t range_count, range_room;

static int allocate(void **where, size_t size, int type) {
    size_t whole = (size + 4095) / 4096 * 4096;
    *where = NULL;
    if (!size) return SUCCESS;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 2;
    pthread_mutex_lock(&lock);
    if (range_count == range_room) {
        range_room = range_room ? 2 * range_room : 256;
        ranges = realloc(ranges, range_room * sizeof *ranges);
    }
    ranges[range_count++] = (struct range){memory, whole, type, current};
    pthread_mutex_unlock(&lock);
    *where = memory;
    return SUCCESS;
}

static int release(void *memory) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].begin != memory) continue;
        munmap(memory, ranges[i].size);
        ranges[i] = ranges[--range_count];
        break;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cudaMalloc(void **where, size_t size) { return allocate(where, size, 2); }
int cudaMallocAsync(void **where, size_t size, void *stream) { return allocate(where, size, 2); }
int cudaHostAlloc(void **where, size_t size, unsigned flags) { return allocate(where, size, 1); }
int cudaMallocHost(void **where, size_t size) { return allocate(where, size, 1); }
int cudaFree(void *memory) { return release(memory); }
int cudaFreeAsync(void *memory, void *stream) { return release(memory); }
int cudaFreeHost(void *memory) { return release(memory); }
int cudaHostRegister(void *memory, size_t size, unsigned flags) { return SUCCESS; }
int cudaHostUnregister(void *memory) { return SUCCESS; }
int cudaHostGetDevicePointer(void **where, void *memory, unsigned flags) {
    *where = memory;
    return SUCCESS;
}
static struct range range_of(const void *where, size_t size) {
    const char *from = where;
    for (size_t i = 0; i < range_count; i++) {
        const char *begin = ranges[i].begin;
        if (from >= begin && from < begin + ranges[i].size && size <= ranges[i].size - (size_t)(from - begin)) return ranges[i];
    }
    return (struct range){NULL, 0, 0, -2};
}
int lab_is_memory(const void *begin, size_t size) { return range_of(begin, size).begin != NULL; }

static struct range locked_range(const void *where) {
    pthread_mutex_lock(&lock);
    struct range found = range_of(where, 1);
    pthread_mutex_unlock(&lock);
    return found;
}

static int is_given(const void *where) { return locked_range(where).begin != NULL; }

int cudaPointerGetAttributes(char *attributes, const void *pointer) {
    struct range found = locked_range(pointer);
    put(attributes, found.type);
    put(attributes + 4, found.device);
    memcpy(attributes + 8, &pointer, sizeof pointer);
    memcpy(attributes + 16, &pointer, sizeof pointer);
    return SUCCESS;
}
int cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = (size_t)80 << 30;
    return SUCCESS;
}

// Copies are done in the order of their stream. What comes from a program's own memory is read at once, and what goes there
// is waited for, as CUDA does with memory that is not pinned.
struct copy {
    char *to;
    const char *from; // NULL: all bytes are `value`
    size_t width, rows, to_pitch, from_pitch;
    int value;
    char *kept;
};

static void run_copy(void *what) {
    struct copy *one = what;
    for (size_t row = 0; row < one->rows; row++) {
        if (one->from) memmove(one->to + row * one->to_pitch, one->from + row * one->from_pitch, one->width);
        else memset(one->to + row * one->to_pitch, one->value, one->width);
    }
    free(one->kept);
    free(one);
}

static void *copy_again(const void *what) {
    struct copy *one = copy_of(what, sizeof *one);
    if (one->kept) one->from = one->kept = copy_of(one->kept, one->rows * one->width + 1);
    return one;
}

static int copy(void *handle, struct copy what) {
    struct stream *stream = stream_of(handle);
    struct copy *one = malloc(sizeof *one);
    *one = what;
    piece *last = last_of(stream);
    int captured = stream->captured != NULL, idle = lab_is_over(last) && !captured, to_pinned = captured || is_given(what.to);
    if (!idle && !to_pinned) lab_wait(last);
    lab_give_back(last);
    if (idle || !to_pinned) return run_copy(one), SUCCESS;
    if (what.from && !is_given(what.from)) {
        one->kept = malloc(what.rows * what.width + 1);
        for (size_t row = 0; row < what.rows; row++) memcpy(one->kept + row * what.width, what.from + row * what.from_pitch, what.width);
        one->from = one->kept, one->from_pitch = what.width;
    }
    lab_give_back(lab_push(handle, (struct work){.begin = run_copy, .what = one, .again = copy_again}));
    return SUCCESS;
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return copy(stream, (struct copy){to, from, size, 1});
}
int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    copy(NULL, (struct copy){to, from, size, 1});
    return synchronize(&defaults[current]);
}
int cudaMemcpyPeerAsync(void *to, int there, const void *from, int here, size_t size, void *stream) {
    return copy(stream, (struct copy){to, from, size, 1});
}
int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height,
                      int kind, void *stream) {
    return copy(stream, (struct copy){to, from, width, height, to_pitch, from_pitch});
}
int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind) { return SUCCESS; }
int cudaMemsetAsync(void *where, int value, size_t size, void *stream) {
    return copy(stream, (struct copy){where, NULL, size, 1, .value = value});
}
int cudaMemset(void *where, int value, size_t size) { return cudaMemsetAsync(where, value, size, NULL); }

// ---- Devices.

int cudaGetDeviceCount(int *count) { return put(count, (int)setting("LAB_DEVICES", 8)); }
int cudaGetDevice(int *device) { return put(device, current); }
int cudaSetDevice(int device) {
    if (device < 0 || device >= DEVICES || device >= setting("LAB_DEVICES", 8)) return 101; // cudaErrorInvalidDevice
    current = device;
    return SUCCESS;
}
int cudaDriverGetVersion(int *version) { return put(version, LAB_CUDA); }
int cudaRuntimeGetVersion(int *version) { return put(version, LAB_CUDA); }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { return put(value, 1); }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { return put(can, 0); }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return SUCCESS; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return put(least, 0) + put(greatest, -5); }
int cudaDeviceGetPCIBusId(char *id, int room, int device) {
    snprintf(id, (size_t)room, "0000:%02x:00.0", 16 + device);
    return SUCCESS;
}
int cudaGetLastError(void) { return SUCCESS; }
int cudaPeekAtLastError(void) { return SUCCESS; }
int cudaProfilerStart(void) { return SUCCESS; }
int cudaProfilerStop(void) { return SUCCESS; }
const char *cudaGetErrorString(int error) { return "an error of the stand-in for CUDA"; }
const char *cudaGetErrorName(int error) { return "cudaErrorOfStandIn"; }

// cudaDeviceProp: up to maxGridSize it is the same in CUDA 12 and 13. Behind that 13 has left out some fields, so that a
// value stands where either has it.
int cudaGetDeviceProperties(char *properties, int device) {
    memset(properties, 0, 800);
    strcpy(properties, "NVIDIA H100 (stand-in)");
    memset(properties + 256, device + 1, 16); // the UUID
    *(size_t *)(properties + 288) = (size_t)80 << 30;
    *(size_t *)(properties + 296) = 48 << 10; // shared memory per block
    put(properties + 304, 65536);             // registers per block
    put(properties + 308, 32);                // threads per warp
    put(properties + 320, 1024);              // threads per block
    for (int i = 0; i < 3; i++) put(properties + 324 + 4 * i, i < 2 ? 1024 : 64);
    for (int i = 0; i < 3; i++) put(properties + 336 + 4 * i, i ? 65535 : 0x7fffffff);
    put(properties + 360, 9); // compute capability 9.0
    put(properties + 384, 132);
    put(properties + 388, 132); // multiprocessors
    for (int at = 596; at <= 628; at += 4) put(properties + at, 2048); // threads per multiprocessor
    return SUCCESS;
}
int cudaGetDeviceProperties_v2(char *properties, int device) { return cudaGetDeviceProperties(properties, device); }

static int not_supported(void) { return NOT_SUPPORTED; }
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, long flags, int *found) {
    void *known = lab_of_driver(name);
    *function = known ? known : (void *)not_supported;
    return found ? put(found, 0) : SUCCESS;
}
int cudaGetDriverEntryPoint(const char *name, void **function, long flags, int *found) {
    return cudaGetDriverEntryPointByVersion(name, function, 0, flags, found);
}
