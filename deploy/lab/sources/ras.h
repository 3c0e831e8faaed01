// What a rank of a communicator lets NCCL's RAS know, in the file in which its ranks meet.
#ifndef LAB_RAS_H
#define LAB_RAS_H

#include <stdatomic.h>

enum { RAS_COUNTS = 5 }; // Broadcast, Reduce, AllGather, ReduceScatter, AllReduce
enum ras_state { RAS_NO_MEMBER, RAS_INIT, RAS_RUNNING, RAS_FINALIZE, RAS_LEFT };

struct ras_rank {
    atomic_int pid, device, state;
    atomic_llong alive; // when its RAS thread ran last, in milliseconds
    atomic_ullong counts[RAS_COUNTS];
};

// Has this process's RAS thread, which begins with the first, tell of a communicator. `ranks`: of all its ranks.
void ras_tell_of(const char *name, struct ras_rank *ranks, int size, int rank, int device);

// Where communicators meet, and the ranks of one by its name, as NCCL's stand-in knows them; NULL: there is none.
const char *meeting_folder(void);
struct ras_rank *ranks_of(const char *name, int *size);

#endif
