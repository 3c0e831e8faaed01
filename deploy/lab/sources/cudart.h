// What the stand-in for CUDA's runtime offers to the others: work on its streams.
#ifndef LAB_CUDART_H
#define LAB_CUDART_H

#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_READY = 600, NOT_SUPPORTED = 801 };

// A piece of work on a stream. It begins when those before it in its stream are over.
typedef struct piece piece;

struct work {
    void (*begin)(void *);  // called as it begins
    int (*is_over)(void *); // NULL: it is over after `seconds` (never, where they are negative)
    void *what;             // what both are given
    double seconds;
    void *(*again)(const void *); // what they are given when a graph runs it once more; NULL: the same
};

// Appends one, and the caller gives the piece back. While the stream is captured it becomes a part of the graph, and there
// is no piece, which counts as one that is over.
piece *lab_push(void *stream, struct work work);
int lab_is_captured(void *stream);
int lab_is_over(const piece *done);
// Waits as CUDA's driver does: it spins, unless LAB_SYNC=sleep.
void lab_wait(const piece *done);
void lab_give_back(piece *done);
// Is all of this memory of the host or a device that the runtime has given out? Asked by what runs on the devices.
int lab_is_memory(const void *begin, size_t size);
// The function of the driver of this name, or NULL: what a real NCCL asks for (real_nccl.c).
void *lab_of_driver(const char *name);
// Never comes back where LAB_BLOCKS names this call.
void lab_blocks(const char *call);

#endif
