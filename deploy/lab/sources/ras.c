// Stands in for NCCL's RAS: a thread per process that listens where all of this machine's do, speaks the clients' protocol
// (JSON from 2.28.7 on, MONITOR from 2.29 on, text before) and tells of all communicators that meet in LAB_FOLDER.
// Where the network of the real one is, files are here in which each rank has a place: a process answers while its
// thread writes the time there. As in the real one a process is unresponsive where it does not answer within the client's
// timeout, and dead a minute after it was heard of last. NCCL_RAS_ENABLE=0 leaves it out.
//
//     NCCL_RAS_ADDR  where to listen (localhost:28028)
//     LAB_RAS_DEAD   after how many seconds a process is dead (60)
#define _GNU_SOURCE
#include "ras.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COMMS = 128, CLIENTS = 32, LINE = 1024 };
enum { BEAT_MS = 200, LATE_MS = 1500, STUCK_MS = 20000 };
static const char *const operations[RAS_COUNTS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};

static struct told {
    char name[320];
    struct ras_rank *ranks;
    int size, rank;
} told[COMMS];
static int told_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct client {
    int socket, timeout, json, monitors, count;
    char line[LINE];
} clients[CLIENTS];
static char host[64] = "127.0.0.1";

static long long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static const char *stamp(void) {
    static char text[32];
    time_t now = time(NULL);
    struct tm parts;
    strftime(text, sizeof text, "%F %T", localtime_r(&now, &parts));
    return text;
}

// ---- Who answers.

static int is_member(const struct ras_rank *one) {
    int state = atomic_load(&one->state);
    return state == RAS_INIT || state == RAS_RUNNING || state == RAS_FINALIZE;
}
static long long silent_ms(const struct ras_rank *one) { return now_ms() - atomic_load(&one->alive); }
static int answers(const struct ras_rank *one) { return silent_ms(one) < LATE_MS; }
static int is_dead(const struct ras_rank *one) {
    const char *given = getenv("LAB_RAS_DEAD");
    return silent_ms(one) > (given ? atoll(given) : 60) * 1000;
}

static void beat(void) {
    for (int i = 0; i < told_count; i++) {
        if (told[i].rank >= 0) atomic_store(&told[i].ranks[told[i].rank].alive, now_ms());
    }
}

static void add(const char *name, struct ras_rank *ranks, int size, int rank) {
    for (int i = 0; i < told_count; i++) {
        if (strcmp(told[i].name, name)) continue;
        if (rank >= 0) told[i].rank = rank;
        return;
    }
    if (told_count == COMMS) return;
    struct told *one = &told[told_count++];
    snprintf(one->name, sizeof one->name, "%s", name);
    one->ranks = ranks, one->size = size, one->rank = rank;
}

// Those of other processes, too, as the network of the real one tells of them.
static void find_others(void) {
    DIR *folder = opendir(meeting_folder());
    for (struct dirent *file; folder && (file = readdir(folder));) {
        int size = 0;
        struct ras_rank *ranks = strncmp(file->d_name, "lab-ras-", 8) ? NULL : ranks_of(file->d_name + 8, &size);
        if (ranks && size) add(file->d_name + 8, ranks, size, -1);
    }
    if (folder) closedir(folder);
}

static int is_over(const struct told *comm) {
    for (int rank = 0; rank < comm->size; rank++) {
        if (is_member(&comm->ranks[rank])) return 0;
    }
    return 1;
}

// Waits for those that may only be late, as long as the client lets it. Returns how long that took, in seconds.
static double collect(int timeout) {
    long long began = now_ms();
    for (int late = 1; late && now_ms() - began < timeout * 1000LL;) {
        late = 0;
        beat();
        for (int i = 0; i < told_count; i++)
            for (int rank = 0; rank < told[i].size; rank++) {
                struct ras_rank *one = &told[i].ranks[rank];
                late |= is_member(one) && !answers(one) && silent_ms(one) < STUCK_MS;
            }
        if (late) usleep(50000);
    }
    return (double)(now_ms() - began) / 1e3;
}

static unsigned long long hash_of(const char *name) {
    unsigned long long hash = 1469598103934665603ULL;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211ULL;
    return hash;
}

// ---- Reports.

static int there(const struct told *comm) {
    int count = 0;
    for (int rank = 0; rank < comm->size; rank++) count += is_member(&comm->ranks[rank]) && answers(&comm->ranks[rank]);
    return count;
}

static void json_home(FILE *out, const struct ras_rank *one, int rank) {
    fprintf(out, "        {\n          \"rank\": %d,\n          \"host\": \"%s\",\n          \"pid\": %d,\n", rank, host, one->pid);
    fprintf(out, "          \"cuda_dev\": %d,\n          \"nvml_dev\": %d,\n          \"status\": {\n", one->device, one->device);
}

static void json_comm(FILE *out, const struct told *comm, int first) {
    int count = there(comm);
    unsigned long long hash = hash_of(comm->name);
    fprintf(out, "%s    {\n      \"hash\": \"0x%llx\",\n      \"secondary_hash\": \"0x%llx:0x%llx\",\n", first ? "" : ",\n", hash,
            hash >> 7, hash >> 11);
    fprintf(out, "      \"size\": %d,\n      \"ranks_count\": %d,\n      \"missing_ranks_count\": %d,\n      \"ranks\": [", comm->size,
            count, comm->size - count);
    const char *comma = "\n";
    for (int rank = 0; rank < comm->size; rank++) {
        const struct ras_rank *one = &comm->ranks[rank];
        if (!is_member(one) || !answers(one)) continue;
        fputs(comma, out), comma = ",\n";
        json_home(out, one, rank);
        fprintf(out, "            \"init_state\": %d,\n            \"async_error\": 0,\n            \"finalize_called\": %s,\n",
                one->state == RAS_INIT ? 7 : 0, one->state == RAS_FINALIZE ? "true" : "false");
        fprintf(out, "            \"destroy_flag\": %s,\n            \"abort_flag\": false\n          },\n",
                one->state == RAS_FINALIZE ? "true" : "false");
        fputs("          \"collective_counts\": {", out);
        for (int i = 0; i < RAS_COUNTS; i++)
            fprintf(out, "%s\n            \"%s\": %llu", i ? "," : "", operations[i], (unsigned long long)one->counts[i]);
        fputs("\n          }\n        }", out);
    }
    fputs("\n      ],\n      \"missing_ranks\": [", out), comma = "\n";
    for (int rank = 0; rank < comm->size; rank++) {
        const struct ras_rank *one = &comm->ranks[rank];
        if (is_member(one) && answers(one)) continue;
        fputs(comma, out), comma = ",\n";
        json_home(out, one, rank);
        fprintf(out, "            \"unresponsive\": %s,\n            \"considered_dead\": %s\n          }\n        }",
                answers(one) ? "false" : "true", is_dead(one) ? "true" : "false");
    }
    fputs("\n      ]\n    }", out);
}

static void json_report(FILE *out, double seconds) {
    fprintf(out, "{\n  \"nccl_version\": \"%d.%d.%d\",\n", LAB_NCCL / 10000, LAB_NCCL / 100 % 100, LAB_NCCL % 100);
    fprintf(out, "  \"cuda_runtime_version\": %d,\n  \"cuda_driver_version\": %d,\n", LAB_CUDA, LAB_CUDA);
    fprintf(out, "  \"timestamp\": \"%s\",\n  \"communicators_count\": %d,\n  \"communicators\": [\n", stamp(), told_count);
    for (int i = 0; i < told_count; i++) json_comm(out, &told[i], i == 0);
    fprintf(out, "\n  ],\n  \"ras\": {\n    \"collection_time_sec\": %.3f,\n    \"timeouts_count\": 0\n  }\n}\n", seconds);
}

static void text_home(FILE *out, const struct ras_rank *one) {
    fprintf(out, "GPU %d managed by process %d on node %s\n", one->device, one->pid, host);
}

// The ranks that have the same count of an operation, the most first; those of fewer than half are listed.
static int text_counts(FILE *out, const struct told *comm, int operation, int heads) {
    unsigned long long seen[64];
    int numbers[64], kinds = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const struct ras_rank *one = &comm->ranks[rank];
        if (!is_member(one) || !answers(one)) continue;
        int at = 0;
        while (at < kinds && seen[at] != one->counts[operation]) at++;
        if (at == kinds) seen[kinds] = one->counts[operation], numbers[kinds++] = 0;
        numbers[at]++;
    }
    if (kinds < 2) return 0;
    if (!heads) fprintf(out, "#%d-0 (%016llx) MISMATCH\n", (int)(comm - told), hash_of(comm->name));
    fprintf(out, "  Communicator ranks have different %s operation counts\n", operations[operation]);
    for (int most = comm->size; most; most--)
        for (int at = 0; at < kinds; at++) {
            if (numbers[at] != most) continue;
            if (most > 1) fprintf(out, "  %d ranks have launched up to operation %llu\n", most, seen[at]);
            for (int rank = 0; rank < comm->size && (most == 1 || 2 * most < comm->size); rank++) {
                const struct ras_rank *one = &comm->ranks[rank];
                if (!is_member(one) || !answers(one) || one->counts[operation] != seen[at]) continue;
                if (most > 1) fprintf(out, "  Rank %d -- ", rank);
                else fprintf(out, "  Rank %d has launched up to operation %llu -- ", rank, seen[at]);
                text_home(out, one);
            }
        }
    fputs("\n", out);
    return 1;
}

static void text_report(FILE *out, double seconds) {
    fprintf(out, "NCCL version %d.%d.%d compiled with CUDA %d.%d\n", LAB_NCCL / 10000, LAB_NCCL / 100 % 100, LAB_NCCL % 100,
            LAB_CUDA / 1000, LAB_CUDA / 10 % 100);
    fprintf(out, "CUDA runtime version %d, driver version %d\n\nJob summary\n===========\n\n", LAB_CUDA, LAB_CUDA);
    int size = told_count ? told[0].size : 0;
    fprintf(out, "  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n");
    fprintf(out, "%7d  %9d  %11d  %9d  %7d\n\nCommunicators... (%.2fs)\n=============\n\n", 1, size, 1, size, size, seconds);
    fputs("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n", out);
    fputs("    #  in group  per comm  per node  per comm  in group\n", out);
    for (int i = 0; i < told_count; i++)
        fprintf(out, "%5d  %8d  %8d  %8d  %8d  %8d  %8s  %6s\n", i, 1, 1, there(&told[i]), told[i].size, there(&told[i]), "RUNNING",
                there(&told[i]) < told[i].size ? "INCOMPLETE" : "OK");
    fputs("\nErrors\n======\n\n", out);
    for (int i = 0; i < told_count; i++) {
        if (there(&told[i]) == told[i].size) continue;
        fprintf(out, "#%d-0 (%016llx) INCOMPLETE\n  Missing communicator data from %d rank%s\n", i, hash_of(told[i].name),
                told[i].size - there(&told[i]), told[i].size - there(&told[i]) > 1 ? "s" : "");
        for (int rank = 0; rank < told[i].size; rank++) {
            if (is_member(&told[i].ranks[rank]) && answers(&told[i].ranks[rank])) continue;
            fprintf(out, "  Rank %d -- ", rank), text_home(out, &told[i].ranks[rank]);
        }
        fputs("\n", out);
    }
    fputs("Warnings\n========\n\n", out);
    for (int i = 0; i < told_count; i++)
        for (int operation = 0, heads = 0; operation < RAS_COUNTS; operation++) heads |= text_counts(out, &told[i], operation, heads);
}

static void report(struct client *client) {
    char *text = NULL;
    size_t size = 0, sent = 0;
    FILE *out = open_memstream(&text, &size);
    pthread_mutex_lock(&lock);
    find_others();
    for (int i = told_count; i-- > 0;) {
        if (told[i].rank < 0 && is_over(&told[i])) told[i] = told[--told_count];
    }
    double seconds = collect(client->timeout);
    if (client->json) json_report(out, seconds);
    else text_report(out, seconds);
    pthread_mutex_unlock(&lock);
    fclose(out);
    for (ssize_t one; sent < size && (one = send(client->socket, text + sent, size - sent, MSG_NOSIGNAL)) > 0;) sent += (size_t)one;
    free(text);
}

// ---- Clients.

static int say(struct client *client, const char *text) {
    return send(client->socket, text, strlen(text), MSG_NOSIGNAL) > 0;
}

// Returns whether it stays.
static int obey(struct client *client, char *line) {
    char text[2 * LINE];
    line[strcspn(line, "\r")] = 0;
    if (!strncasecmp(line, "client protocol ", 16)) return say(client, "SERVER PROTOCOL 2\n");
    if (!strncasecmp(line, "timeout ", 8)) return client->timeout = atoi(line + 8), say(client, "OK\n");
    if (!strncasecmp(line, "set format ", 11) && LAB_NCCL >= 22807)
        return client->json = !strcasecmp(line + 11, "json"), say(client, "OK\n");
    if (!strncasecmp(line, "monitor", 7) && LAB_NCCL >= 22900) return client->monitors = 1, say(client, "OK\n");
    if (!strcasecmp(line, "status") || !strcasecmp(line, "verbose status")) return report(client), 0;
    snprintf(text, sizeof text, "ERROR: Unknown command %s\n", line);
    return say(client, text);
}

static int serve(struct client *client) {
    ssize_t got = recv(client->socket, client->line + client->count, (size_t)(LINE - 1 - client->count), MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    client->line[client->count += (int)got] = 0;
    for (char *end; (end = strchr(client->line, '\n'));) {
        *end = 0;
        if (!obey(client, client->line)) return 0;
        client->count -= (int)(end + 1 - client->line);
        memmove(client->line, end + 1, (size_t)client->count + 1);
    }
    return client->count < LINE - 1;
}

static void tell_of_the_dead(void) {
    static int dead[256], count;
    char text[256];
    for (int i = 0; i < told_count; i++)
        for (int rank = 0; rank < told[i].size; rank++) {
            const struct ras_rank *one = &told[i].ranks[rank];
            int known = !is_member(one) || !is_dead(one) || count == 256;
            for (int j = 0; j < count && !known; j++) known = dead[j] == one->pid;
            if (known) continue;
            dead[count++] = one->pid;
            snprintf(text, sizeof text, "[%s] PEER_DEAD: Process %d on node %s managing GPU %d \n", stamp(), one->pid, host, one->device);
            for (int j = 0; j < CLIENTS; j++) if (clients[j].monitors) say(&clients[j], text);
        }
}

static int listen_for_clients(void) {
    const char *given = getenv("NCCL_RAS_ADDR");
    char name[256];
    snprintf(name, sizeof name, "%s", given && *given ? given : "localhost:28028");
    char *port = strrchr(name, ':');
    if (!port) return -1;
    *port++ = 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char *plain = name[0] == '[' ? strtok(name + 1, "]") : name;
    if (getaddrinfo(plain, port, &hints, &found)) return -1;
    int one = 1, listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    int failed = bind(listener, found->ai_addr, found->ai_addrlen) || listen(listener, 16384);
    freeaddrinfo(found);
    if (!failed) return listener;
    close(listener);
    return -1;
}

static void *ncclRasThread(void *unused) {
    const char *named = getenv("NCCL_SET_THREAD_NAME");
    if (named && *named == '1') pthread_setname_np(pthread_self(), "NCCL RAS");
    int listener = listen_for_clients();
    for (;;) {
        struct pollfd waits[CLIENTS + 1] = {{.fd = listener, .events = POLLIN}};
        for (int i = 0; i < CLIENTS; i++) waits[i + 1] = (struct pollfd){clients[i].socket ? clients[i].socket : -1, POLLIN, 0};
        poll(waits, CLIENTS + 1, BEAT_MS);
        pthread_mutex_lock(&lock);
        beat();
        tell_of_the_dead();
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < CLIENTS; i++) {
            if (waits[i + 1].revents && !serve(&clients[i])) close(clients[i].socket), clients[i] = (struct client){0};
        }
        for (int i = 0; waits[0].revents && i < CLIENTS; i++) {
            if (clients[i].socket) continue;
            clients[i] = (struct client){.socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC), .timeout = 5};
            if (clients[i].socket < 0) clients[i].socket = 0;
            break;
        }
    }
    return unused;
}

static void begin(void) {
    struct ifaddrs *all, *one;
    pthread_t thread;
    if (!getifaddrs(&all)) {
        for (one = all; one; one = one->ifa_next) { // that of the bootstrap, which leaves out the loopback where it can
            if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !strncmp(one->ifa_name, "lo", 2)) continue;
            inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, host, sizeof host);
            break;
        }
        freeifaddrs(all);
    }
    pthread_create(&thread, NULL, ncclRasThread, NULL);
}

void ras_tell_of(const char *name, struct ras_rank *ranks, int size, int rank, int device) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *enabled = getenv("NCCL_RAS_ENABLE");
    if (LAB_NCCL < 22400 || (enabled && *enabled == '0')) return;
    atomic_store(&ranks[rank].pid, getpid());
    atomic_store(&ranks[rank].device, device);
    pthread_mutex_lock(&lock);
    add(name, ranks, size, rank);
    beat();
    pthread_mutex_unlock(&lock);
    pthread_once(&once, begin);
}
