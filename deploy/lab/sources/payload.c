// What ranks send each other: a call's input lies in a file from when it begins, and who needs it reads it when the call is
// over. Of what is larger than a megabyte nothing arrives: then a rank takes what it has itself for what all have.
#define _GNU_SOURCE
#include "payload.h"
#include "cudart.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20, KEPT = 64, PATH = 800 };
static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; // by ncclDataType_t

static size_t size_of(const struct payload *one) {
    size_t element = one->type >= 0 && one->type < (int)sizeof sizes ? sizes[one->type] : 0;
    return one->count * element;
}

// How many of a call's pieces does one rank give, and in how many does it get something?
static int given(const struct payload *one, int rank) {
    switch (one->operation) {
    case BROADCAST: return rank == one->root;
    case SCATTER: return rank == one->root ? one->size : 0;
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return one->size;
    case RECEIVE: return rank == one->root;
    default: return 1;
    }
}

static void name(char *where, const struct payload *one, const char *path, int rank, unsigned long long number) {
    int to = one->operation == SEND ? one->root : one->operation == RECEIVE ? one->rank : -1;
    snprintf(where, PATH, "%s-%d-%d-%llu", path, rank, to, number);
}

void payload_sent(const struct payload *one, const char *path) {
    char where[PATH];
    size_t bytes = size_of(one) * (size_t)given(one, one->rank);
    if (one->operation == RECEIVE || !bytes || bytes > MOST || !lab_is_memory(one->from, bytes)) return;
    if (one->operation != SEND && one->number >= KEPT) { // everybody has long read it
        name(where, one, path, one->rank, one->number - KEPT);
        unlink(where);
    }
    name(where, one, path, one->rank, one->number);
    int file = open(where, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, one->from, bytes) != (ssize_t)bytes) unlink(where);
    close(file);
}

// What another rank gave, from a piece on; what cannot be had is the own.
static void read_from(const struct payload *one, const char *path, int rank, size_t at, char *to) {
    char where[PATH];
    size_t bytes = size_of(one);
    name(where, one, path, rank, one->number);
    int file = open(where, O_RDONLY | O_CLOEXEC);
    ssize_t done = file < 0 ? -1 : pread(file, to, bytes, (off_t)(at * bytes));
    if (file >= 0) close(file);
    if (one->operation == RECEIVE) unlink(where);
    if (done != (ssize_t)bytes && one->from && lab_is_memory(one->from, bytes)) memmove(to, one->from, bytes);
}

#define COMBINE(TYPE)                                                                                                  \
    for (size_t i = 0; i < count; i++) {                                                                               \
        TYPE *x = (TYPE *)sum + i, y = ((const TYPE *)other)[i];                                                       \
        *x = how == 1 ? *x * y : how == 2 ? (*x > y ? *x : y) : how == 3 ? (*x < y ? *x : y) : *x + y;                 \
    }

// Halves of floats are not combined: the first rank's stay.
static void combine(void *sum, const void *other, size_t count, int type, int how) {
    switch (type) {
    case 0: COMBINE(signed char) break;
    case 1: COMBINE(unsigned char) break;
    case 2: COMBINE(int) break;
    case 3: COMBINE(unsigned) break;
    case 4: COMBINE(long long) break;
    case 5: COMBINE(unsigned long long) break;
    case 7: COMBINE(float) break;
    case 8: COMBINE(double) break;
    }
}

static void average(void *sum, size_t count, int type, int ranks) {
    for (size_t i = 0; i < count; i++) {
        if (type == 7) ((float *)sum)[i] /= (float)ranks;
        else if (type == 8) ((double *)sum)[i] /= ranks;
    }
}

static void reduce(const struct payload *one, const char *path, char *to) {
    size_t bytes = size_of(one), at = one->operation == REDUCE_SCATTER ? (size_t)one->rank : 0;
    char *other = malloc(bytes);
    for (int rank = 0; rank < one->size; rank++) {
        read_from(one, path, rank, at, rank ? other : to);
        if (rank) combine(to, other, one->count, one->type, one->how);
    }
    if (one->how == 4) average(to, one->count, one->type, one->size);
    free(other);
}

void payload_arrives(const struct payload *one, const char *path) {
    enum operation what = one->operation;
    int gathers = what == ALL_GATHER || what == ALL_TO_ALL || what == GATHER;
    size_t bytes = size_of(one), whole = bytes * (size_t)(gathers ? one->size : 1);
    if (what == SEND || ((what == REDUCE || what == GATHER) && one->rank != one->root)) return;
    if (!bytes || !one->to || !lab_is_memory(one->to, whole)) return;
    char *result = malloc(whole);
    memcpy(result, one->to, whole); // its input may be a part of it
    if (what == ALL_REDUCE || what == REDUCE || what == REDUCE_SCATTER) reduce(one, path, result);
    else if (!gathers) read_from(one, path, one->root, what == SCATTER ? (size_t)one->rank : 0, result);
    for (int rank = 0; gathers && rank < one->size; rank++) {
        read_from(one, path, rank, what == ALL_TO_ALL ? (size_t)one->rank : 0, result + (size_t)rank * bytes);
    }
    memcpy(one->to, result, whole);
    free(result);
}
