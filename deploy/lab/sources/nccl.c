// Stands in for NCCL. The ranks of a communicator meet in a file that all of them map, by its unique id. A collective is
// over when every rank's device has begun the same one: operation, count, type, root. A send is over when its receive has
// begun, and the other way round. All calls between ncclGroupStart and ncclGroupEnd are one piece of work per stream.
// What is sent arrives (payload.c).
//
//     LAB_FOLDER  where those files are (/dev/shm)
//     LAB_PROXY   1: a thread per communicator spins while it has work, as NCCL's does over the network
//     LAB_STALLS  1: nothing that has begun ends, as over a network that is gone; a running program may set it
#define _GNU_SOURCE
#include "cudart.h"
#include "payload.h"
#include "ras.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { INVALID_ARGUMENT = 4, IN_PROGRESS = 7, UNDEFINED_INT = -2147483647 - 1 };
enum { RANKS = 64, RING = 256, SPLITS = 64 };
enum { NAME = 320 };

typedef struct {
    char bytes[128];
} unique_id;

struct shared {
    atomic_int here;
    atomic_int splits[RANKS];
    int colors[RANKS][SPLITS], keys[RANKS][SPLITS];
    atomic_ullong begun[RANKS][RING]; // the number of a collective, counted from 1, where its signature is written
    unsigned long long signatures[RANKS][RING];
    atomic_uint sent[RANKS][RANKS], received[RANKS][RANKS]; // [from][to]: how many have begun
};

struct board { // what RAS is told, in a file of its own: it changes all the time
    atomic_int size;
    struct ras_rank ranks[RANKS];
};

struct comm {
    char name[NAME];
    struct shared *shared;
    struct board *board;
    int size, rank, device, blocking;
    unsigned long long issued;
    unsigned sends[RANKS], receives[RANKS];
    int splits;
    piece *last;
    atomic_int aborted, pending;
};

struct call {
    struct comm *comm;
    void *stream;
    unsigned long long number, signature;
    struct payload payload;
};

// What is begun and over together.
struct batch {
    int count;
    struct call calls[];
};

int cudaGetDevice(int *device);

// ---- Work.

static int is_collective(const struct call *one) { return one->payload.operation < SEND; }

const char *meeting_folder(void) {
    const char *folder = getenv("LAB_FOLDER");
    return folder && *folder ? folder : "/dev/shm";
}

// Where ranks find something of a communicator's: `nccl` is where they meet, `ras` what RAS knows, `data` what is sent.
static const char *in_folder(char path[2 * NAME], const char *what, const char *name) {
    snprintf(path, 2 * NAME, "%s/lab-%s-%s", meeting_folder(), what, name);
    return path;
}

static void begin(void *what) {
    struct batch *batch = what;
    for (int i = 0; i < batch->count; i++) {
        struct call *one = &batch->calls[i];
        struct shared *shared = one->comm->shared;
        int me = one->comm->rank, peer = one->payload.root;
        char path[2 * NAME];
        if (!atomic_load(&one->comm->aborted)) payload_sent(&one->payload, in_folder(path, "data", one->comm->name));
        if (is_collective(one)) {
            shared->signatures[me][one->number % RING] = one->signature;
            atomic_store(&shared->begun[me][one->number % RING], one->number + 1);
        } else if (one->payload.operation == SEND) {
            atomic_fetch_add(&shared->sent[me][peer], 1);
        } else {
            atomic_fetch_add(&shared->received[peer][me], 1);
        }
    }
}

static int all_have_begun(const struct call *one) {
    struct shared *shared = one->comm->shared;
    for (int rank = 0; rank < one->comm->size; rank++) {
        if (atomic_load(&shared->begun[rank][one->number % RING]) != one->number + 1) return 0;
        if (shared->signatures[rank][one->number % RING] != one->signature) return 0;
    }
    return 1;
}

static int is_over(void *what) {
    struct batch *batch = what;
    const char *stalls = getenv("LAB_STALLS");
    for (int i = 0; i < batch->count; i++) {
        struct call *one = &batch->calls[i];
        struct shared *shared = one->comm->shared;
        int me = one->comm->rank, peer = one->payload.root;
        if (atomic_load(&one->comm->aborted)) continue;
        if (stalls && *stalls == '1') return 0;
        if (is_collective(one) && !all_have_begun(one)) return 0;
        if (one->payload.operation == SEND && atomic_load(&shared->received[me][peer]) <= one->number) return 0;
        if (one->payload.operation == RECEIVE && atomic_load(&shared->sent[peer][me]) <= one->number) return 0;
    }
    for (int i = 0; i < batch->count; i++) {
        struct comm *comm = batch->calls[i].comm;
        char path[2 * NAME];
        if (!atomic_load(&comm->aborted)) payload_arrives(&batch->calls[i].payload, in_folder(path, "data", comm->name));
        atomic_fetch_sub(&comm->pending, 1);
    }
    free(batch);
    return 1;
}

enum { CALLS = 4096 };
static __thread struct call grouped[CALLS];
static __thread int group_depth, group_count;

// Calls get their numbers as they are issued, and again each time that a graph runs them.
static void count(struct batch *batch) {
    for (int i = 0; i < batch->count; i++) {
        struct call *one = &batch->calls[i];
        struct comm *comm = one->comm;
        struct payload *what = &one->payload;
        if (is_collective(one)) one->number = comm->issued++;
        else one->number = what->operation == SEND ? comm->sends[what->root]++ : comm->receives[what->root]++;
        what->number = one->number;
        atomic_fetch_add(&comm->pending, 1);
    }
}

static void *again(const void *what) {
    size_t size = sizeof(struct batch) + (size_t)((const struct batch *)what)->count * sizeof(struct call);
    struct batch *batch = memcpy(malloc(size), what, size);
    count(batch);
    return batch;
}

static void push(struct call *calls, int size) {
    struct batch *batch = malloc(sizeof *batch + (size_t)size * sizeof *calls);
    batch->count = size;
    memcpy(batch->calls, calls, (size_t)size * sizeof *calls);
    if (!lab_is_captured(calls[0].stream)) count(batch);
    piece *one = lab_push(calls[0].stream, (struct work){begin, is_over, batch, 0, again});
    lab_give_back(calls[0].comm->last);
    calls[0].comm->last = one;
}

// RAS counts what the program issues: of what a graph runs again it knows nothing.
static int issue(struct comm *comm, void *stream, struct payload what) {
    static const int counted[] = {[ALL_REDUCE] = 5, [BROADCAST] = 1, [REDUCE] = 2, [ALL_GATHER] = 3, [REDUCE_SCATTER] = 4};
    if (what.operation <= REDUCE_SCATTER)
        atomic_fetch_add(&comm->board->ranks[comm->rank].counts[counted[what.operation] - 1], 1);
    struct call one = {.comm = comm, .stream = stream, .payload = what};
    if (!is_collective(&one) && (what.root < 0 || what.root >= comm->size)) return INVALID_ARGUMENT;
    one.signature = what.count;
    one.signature = ((one.signature * 31 + what.operation) * 31 + (unsigned)what.type) * 131 + (unsigned)(what.how + what.root);
    one.payload.rank = comm->rank, one.payload.size = comm->size;
    if (group_depth && group_count < CALLS) grouped[group_count++] = one;
    else push(&one, 1);
    return SUCCESS;
}

int ncclGroupStart(void) {
    group_depth++;
    return SUCCESS;
}

int ncclGroupEnd(void) {
    if (--group_depth) return SUCCESS;
    for (int first = 0; first < group_count;) { // one kernel for each communicator and stream
        struct call *calls = &grouped[first];
        int count = 1;
        for (int i = first + 1; i < group_count; i++) {
            if (grouped[i].comm != calls->comm || grouped[i].stream != calls->stream) continue;
            struct call other = grouped[i];
            memmove(&calls[count + 1], &calls[count], (size_t)(&grouped[i] - &calls[count]) * sizeof other);
            calls[count++] = other;
        }
        push(calls, count);
        first += count;
    }
    group_count = 0;
    return SUCCESS;
}
int ncclGroupSimulateEnd(void *info) { return ncclGroupEnd(); }

#define ISSUE(...) issue(comm, stream, (struct payload){__VA_ARGS__})

int ncclAllReduce(const void *from, void *to, size_t n, int type, int how, struct comm *comm, void *stream) {
    return ISSUE(ALL_REDUCE, from, to, n, type, how);
}
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, struct comm *comm, void *stream) {
    return ISSUE(BROADCAST, from, to, n, type, 0, root);
}
int ncclBcast(void *where, size_t n, int type, int root, struct comm *comm, void *stream) {
    return ISSUE(BROADCAST, where, where, n, type, 0, root);
}
int ncclReduce(const void *from, void *to, size_t n, int type, int how, int root, struct comm *comm, void *stream) {
    return ISSUE(REDUCE, from, to, n, type, how, root);
}
int ncclAllGather(const void *from, void *to, size_t n, int type, struct comm *comm, void *stream) {
    return ISSUE(ALL_GATHER, from, to, n, type);
}
int ncclReduceScatter(const void *from, void *to, size_t n, int type, int how, struct comm *comm, void *stream) {
    return ISSUE(REDUCE_SCATTER, from, to, n, type, how);
}
int ncclAlltoAll(const void *from, void *to, size_t n, int type, struct comm *comm, void *stream) {
    return ISSUE(ALL_TO_ALL, from, to, n, type);
}
int ncclGather(const void *from, void *to, size_t n, int type, int root, struct comm *comm, void *stream) {
    return ISSUE(GATHER, from, to, n, type, 0, root);
}
int ncclScatter(const void *from, void *to, size_t n, int type, int root, struct comm *comm, void *stream) {
    return ISSUE(SCATTER, from, to, n, type, 0, root);
}
int ncclSend(const void *from, size_t n, int type, int peer, struct comm *comm, void *stream) {
    return ISSUE(SEND, from, NULL, n, type, 0, peer);
}
int ncclRecv(void *to, size_t n, int type, int peer, struct comm *comm, void *stream) {
    return ISSUE(RECEIVE, NULL, to, n, type, 0, peer);
}
int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct comm *comm) {
    return *op = 5, SUCCESS;
}
int ncclRedOpDestroy(int op, struct comm *comm) { return SUCCESS; }

// ---- Communicators. NCCL's main thread polls while others of its threads do the work, hence the names.

__attribute__((noinline)) static int asyncJobLaunch(atomic_int *what, int wanted, atomic_int *aborted) {
    while (atomic_load(what) < wanted && !atomic_load(aborted)) usleep(1);
    return SUCCESS;
}
__attribute__((noinline)) static int groupLaunch(atomic_int *what, int wanted, atomic_int *aborted) {
    int result = asyncJobLaunch(what, wanted, aborted);
    __asm__ volatile("");
    return result;
}

static void *ncclProxyProgress(void *what) {
    struct comm *comm = what;
    const char *named = getenv("NCCL_SET_THREAD_NAME"); // else it is called as the process is
    if (named && *named == '1') pthread_setname_np(pthread_self(), "NCCL Progress");
    while (!atomic_load(&comm->aborted)) {
        if (!atomic_load(&comm->pending)) usleep(1000);
    }
    return NULL;
}

static void *meet(const char *kind, const char *name, size_t size) {
    char path[2 * NAME];
    int file = open(in_folder(path, kind, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size)) return NULL;
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

struct ras_rank *ranks_of(const char *name, int *size) {
    struct board *board = meet("ras", name, sizeof *board);
    if (!board) return NULL;
    *size = atomic_load(&board->size);
    return board->ranks;
}

static void tell(struct comm *comm, enum ras_state state) {
    atomic_store(&comm->board->ranks[comm->rank].state, state);
}

// ncclConfig_t: size, magic, version, and whether calls block; unset means yes.
static int blocks(const void *config) {
    int blocking = 1;
    if (config) memcpy(&blocking, (const char *)config + 16, sizeof blocking);
    return blocking != 0;
}

static int join(struct comm **where, const char *name, int size, int rank, const void *config) {
    if (size > RANKS || rank < 0 || rank >= size) return INVALID_ARGUMENT;
    struct comm *comm = calloc(1, sizeof *comm);
    *where = comm;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->size = size, comm->rank = rank, comm->blocking = blocks(config);
    cudaGetDevice(&comm->device);
    comm->shared = meet("nccl", name, sizeof *comm->shared), comm->board = meet("ras", name, sizeof *comm->board);
    if (!comm->shared || !comm->board) return 2;
    atomic_store(&comm->board->size, size);
    tell(comm, RAS_INIT);
    ras_tell_of(name, comm->board->ranks, size, rank, comm->device);
    atomic_fetch_add(&comm->shared->here, 1);
    const char *proxy = getenv("LAB_PROXY");
    pthread_t thread;
    if (proxy && *proxy == '1') pthread_create(&thread, NULL, ncclProxyProgress, comm);
    if (!comm->blocking) return IN_PROGRESS;
    int result = groupLaunch(&comm->shared->here, size, &comm->aborted);
    tell(comm, RAS_RUNNING);
    return result;
}

int ncclCommInitRankConfig(struct comm **where, int size, unique_id id, int rank, void *config) {
    char name[40];
    for (int i = 0; i < 16; i++) sprintf(name + 2 * i, "%02x", (unsigned char)id.bytes[i]);
    return join(where, name, size, rank, config);
}
int ncclCommInitRank(struct comm **where, int size, unique_id id, int rank) {
    return ncclCommInitRankConfig(where, size, id, rank, NULL);
}
int ncclCommInitRankScalable(struct comm **where, int size, int rank, int ids, unique_id *id, void *config) {
    return ncclCommInitRankConfig(where, size, *id, rank, config);
}

int ncclCommSplit(struct comm *whole, int color, int key, struct comm **where, void *config) {
    int number = whole->splits++, rank = 0, size = 0, me = whole->rank;
    struct shared *shared = whole->shared;
    shared->colors[me][number % SPLITS] = color;
    shared->keys[me][number % SPLITS] = key;
    atomic_store(&shared->splits[me], number + 1);
    for (int other = 0; other < whole->size; other++) groupLaunch(&shared->splits[other], number + 1, &whole->aborted);
    *where = NULL;
    if (color < 0) return SUCCESS;
    for (int other = 0; other < whole->size; other++) {
        if (shared->colors[other][number % SPLITS] != color) continue;
        int theirs = shared->keys[other][number % SPLITS];
        size++;
        rank += theirs < key || (theirs == key && other < me);
    }
    char name[NAME];
    snprintf(name, sizeof name, "%.200s-%d-%d", whole->name, number, color);
    return join(where, name, size, rank, config ? config : NULL);
}

int ncclCommShrink(struct comm *whole, int *left_out, int count, struct comm **where, void *config, int flags) {
    int rank = whole->rank;
    for (int i = 0; i < count; i++) rank -= left_out[i] < whole->rank;
    char name[NAME];
    snprintf(name, sizeof name, "%.200s-s%d", whole->name, whole->splits++);
    return join(where, name, whole->size - count, rank, config);
}

int ncclGetUniqueId(unique_id *id) {
    memset(id, 0, sizeof *id);
    return getrandom(id, 16, 0) == 16 ? SUCCESS : 2;
}
int ncclCommAbort(struct comm *comm) {
    lab_blocks("abort");
    atomic_store(&comm->aborted, 1);
    tell(comm, RAS_LEFT);
    return SUCCESS;
}
int ncclCommFinalize(struct comm *comm) {
    tell(comm, RAS_FINALIZE);
    if (comm->blocking) lab_wait(comm->last);
    return comm->blocking || lab_is_over(comm->last) ? SUCCESS : IN_PROGRESS;
}
int ncclCommDestroy(struct comm *comm) {
    tell(comm, RAS_FINALIZE);
    lab_wait(comm->last);
    return ncclCommAbort(comm);
}
int ncclCommGetAsyncError(struct comm *comm, int *error) {
    int joins = atomic_load(&comm->shared->here) < comm->size && !atomic_load(&comm->aborted);
    if (!joins && atomic_load(&comm->board->ranks[comm->rank].state) == RAS_INIT) tell(comm, RAS_RUNNING);
    return *error = joins ? IN_PROGRESS : SUCCESS, SUCCESS;
}
int ncclCommCount(struct comm *comm, int *size) { return *size = comm->size, SUCCESS; }
int ncclCommUserRank(struct comm *comm, int *rank) { return *rank = comm->rank, SUCCESS; }
int ncclCommCuDevice(struct comm *comm, int *device) { return *device = comm->device, SUCCESS; }
int ncclGetVersion(int *version) { return *version = LAB_NCCL, SUCCESS; }
const char *ncclGetErrorString(int error) { return "an error of the stand-in for NCCL"; }
const char *ncclGetLastError(struct comm *comm) { return ""; }
int cudaMalloc(void **where, size_t size);
int cudaFree(void *memory);
int ncclMemAlloc(void **where, size_t size) { return cudaMalloc(where, size); }
int ncclMemFree(void *memory) { return cudaFree(memory); }
int ncclCommRegister(struct comm *comm, void *memory, size_t size, void **handle) { return *handle = memory, SUCCESS; }
int ncclCommDeregister(struct comm *comm, void *handle) { return SUCCESS; }
