// What a call sends and what arrives: through files beside that in which a communicator meets.
#ifndef LAB_PAYLOAD_H
#define LAB_PAYLOAD_H

#include <stddef.h>

enum operation { ALL_REDUCE = 1, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECEIVE };

struct payload {
    enum operation operation;
    const void *from;
    void *to;
    size_t count; // of elements, as NCCL's call has it
    int type, how, root; // `how`: sum, product, ...; `root`: the peer of a send or receive
    unsigned long long number;
    int rank, size;
};

// Both are called by the thread of the devices: as the call begins, and as it is over.
void payload_sent(const struct payload *one, const char *path);
void payload_arrives(const struct payload *one, const char *path);

#endif
