// What the stand-in for CUDA's runtime offers to the others: work on its streams.
#ifndef LAB_CUDART_H
#define LAB_CUDART_H

#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_READY = 600, NOT_SUPPORTED = 801 };

// A piece of work on a stream. It begins when those before it in its stream are over.
typedef struct piece piece;

// Appends one. `begin` is called as it begins; it is over when `is_over` says so, or after `seconds` where that is NULL
// (never, where they are negative). The caller gives the piece back.
piece *lab_push(void *stream, void (*begin)(void *), int (*is_over)(void *), void *what, double seconds);
int lab_is_over(const piece *done);
// Waits as CUDA's driver does: it spins, unless LAB_SYNC=sleep.
void lab_wait(const piece *done);
void lab_give_back(piece *done);
// Is all of this memory of the host or a device that the runtime has given out? Asked by what runs on the devices.
int lab_is_memory(const void *begin, size_t size);
// Never comes back where LAB_BLOCKS names this call.
void lab_blocks(const char *call);

#endif
