/* Masters that are far away: a proxy that delays every byte, each way, by half a round trip.
 *
 *     delay PORT [PORT ...]         the masters, on 127.0.0.1
 *
 * Prints one line with the ports that it listens on itself, in the same order; no delay at first. Then each
 * line on stdin gives the round trips in microseconds, one for each master, and is answered with "ok". Ends
 * with stdin, so never after whoever started it.
 *
 * In C, because proxies in Python take as much CPU on a small machine as the client that is measured. A byte
 * that comes in at t goes out at t + rtt/2, whatever else is under way: bytes are delayed, not serialised. A
 * new connection also pays the round trip that the handshake of TCP would take.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define EARLY_NS 20000 /* what is due so soon goes along: one turn for the requests of one round */
#define MASTERS 64

struct master {
    int listening;
    struct sockaddr_in address;
    int64_t half_ns;
};

struct chunk {
    struct chunk *next;
    int64_t due;
    size_t length, sent; /* length 0: the end of this direction */
    char bytes[];
};

/* One end of a connection, and what is on its way out of it. */
struct end {
    int fd;
    int blocked; /* its buffer is full: wait for EPOLLOUT */
    int ended; /* nothing more will be read from it */
    int deaf; /* it was reset, which epoll would tell for ever */
    int finished; /* the end has been passed on to it */
    struct end *other;
    struct master *master;
    int64_t not_before;
    struct chunk *first, *last; /* in the order of their coming: none overtakes, also where it gets nearer */
    struct end *busy_next, **busy_place; /* in the list of those that have something on its way */
    struct end *dead_next;
    int dead;
};

static struct master masters[MASTERS];
static int count, epoll, timer;
static struct end *busy, *dead;
static int64_t armed;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(int fd, uint32_t events, void *what, int operation)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    if (epoll_ctl(epoll, operation, fd, &event) < 0)
        die("epoll_ctl");
}

static void watch_end(struct end *end)
{
    if (!end->deaf)
        watch(end->fd, (end->ended ? 0 : EPOLLIN) | (end->blocked ? EPOLLOUT : 0), end, EPOLL_CTL_MOD);
}

static void leave_busy(struct end *end)
{
    if (end->busy_place) {
        *end->busy_place = end->busy_next;
        if (end->busy_next)
            end->busy_next->busy_place = end->busy_place;
        end->busy_place = NULL;
    }
}

static void enter_busy(struct end *end)
{
    if (!end->busy_place) {
        end->busy_next = busy;
        end->busy_place = &busy;
        if (busy)
            busy->busy_place = &end->busy_next;
        busy = end;
    }
}

/* Both ends at once. The memory goes after the events of this turn, which may still name them. */
static void drop(struct end *end)
{
    struct end *both[2] = {end, end->other};
    for (int i = 0; i < 2; i++) {
        struct end *one = both[i];
        if (one->dead)
            continue;
        one->dead = 1;
        close(one->fd);
        leave_busy(one);
        while (one->first) {
            struct chunk *chunk = one->first;
            one->first = chunk->next;
            free(chunk);
        }
        one->dead_next = dead;
        dead = one;
    }
}

static void bury(void)
{
    while (dead) {
        struct end *end = dead;
        dead = end->dead_next;
        free(end);
    }
}

static void accept_one(struct master *master)
{
    int near = accept4(master->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    if (near < 0)
        return;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct end *ends[2] = {calloc(1, sizeof(struct end)), calloc(1, sizeof(struct end))};
    if (far < 0 || !ends[0] || !ends[1])
        die("a new connection");
    /* Not blocking: on loopback it is made, or refused, at once; else the first event says. */
    if (connect(far, (struct sockaddr *)&master->address, sizeof master->address) < 0 && errno != EINPROGRESS) {
        close(near), close(far), free(ends[0]), free(ends[1]);
        return;
    }
    int fds[2] = {near, far};
    for (int i = 0; i < 2; i++) {
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        ends[i]->fd = fds[i];
        ends[i]->other = ends[1 - i];
        ends[i]->master = master;
        ends[i]->not_before = now() + 2 * master->half_ns;
        watch(fds[i], EPOLLIN, ends[i], EPOLL_CTL_ADD);
    }
}

static void take(struct end *end)
{
    static char bytes[CHUNK];
    ssize_t got = read(end->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int64_t came = now();
    size_t length = got > 0 ? (size_t)got : 0; /* an error is an end, too */
    struct chunk *chunk = malloc(sizeof *chunk + length);
    if (!chunk)
        die("malloc");
    *chunk = (struct chunk){.length = length};
    memcpy(chunk->bytes, bytes, length);
    chunk->due = (came > end->not_before ? came : end->not_before) + end->master->half_ns;
    struct end *to = end->other;
    if (to->first)
        to->last->next = chunk;
    else
        to->first = chunk;
    to->last = chunk;
    enter_busy(to);
    if (!length) {
        end->ended = 1;
        watch_end(end);
    }
}

/* Send what is due; 0: the connection is gone. */
static int deliver(struct end *end, int64_t at)
{
    while (end->first && end->first->due <= at) {
        struct chunk *chunk = end->first;
        if (chunk->length) {
            ssize_t sent = send(end->fd, chunk->bytes + chunk->sent, chunk->length - chunk->sent, MSG_NOSIGNAL);
            if (sent < 0) /* gone: what comes for it is lost, what it sent before is still on its way */
                sent = errno == EAGAIN ? 0 : (ssize_t)(chunk->length - chunk->sent);
            chunk->sent += (size_t)sent;
            if (chunk->sent < chunk->length) {
                end->blocked = 1;
                watch_end(end);
                leave_busy(end); /* the timer cannot help it */
                return 1;
            }
        } else {
            shutdown(end->fd, SHUT_WR);
            end->finished = 1;
        }
        end->first = chunk->next;
        free(chunk);
    }
    if (!end->first)
        leave_busy(end);
    if (end->finished && end->other->finished)
        return drop(end), 0;
    return 1;
}

static void deliver_all(void)
{
    int64_t at = now() + EARLY_NS, next = 0;
    for (struct end *end = busy, *after; end; end = after) {
        after = end->busy_next;
        if (end->first && end->first->due <= at && !deliver(end, at)) {
            after = busy; /* both ends have left the list: begin again */
            next = 0;
            continue;
        }
        if (end->busy_place && end->first && (!next || end->first->due < next))
            next = end->first->due;
    }
    if (next != armed) {
        struct itimerspec when = {.it_value = {next / 1000000000, next % 1000000000}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        armed = next;
    }
}

static int listen_for(struct master *master, int port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    master->address = own;
    master->address.sin_port = htons((uint16_t)port);
    master->listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (master->listening < 0 || bind(master->listening, (struct sockaddr *)&own, sizeof own) < 0 ||
        listen(master->listening, 512) < 0 || getsockname(master->listening, (struct sockaddr *)&own, &size) < 0)
        die("listen");
    watch(master->listening, EPOLLIN, master, EPOLL_CTL_ADD);
    return ntohs(own.sin_port);
}

/* A line of round trips; 0: there will be no more. */
static int obey(void)
{
    static char line[4096];
    static size_t have;
    ssize_t got = read(0, line + have, sizeof line - 1 - have);
    if (got <= 0)
        return 0;
    have += (size_t)got;
    line[have] = 0;
    char *end = strchr(line, '\n');
    if (!end)
        return have < sizeof line - 1;
    char *at = line;
    for (int i = 0; i < count; i++)
        masters[i].half_ns = strtoll(at, &at, 10) * 500;
    have -= (size_t)(end + 1 - line);
    memmove(line, end + 1, have);
    puts("ok");
    fflush(stdout);
    return 1;
}

int main(int argc, char **argv)
{
    struct epoll_event events[256];
    static char standard_input, ticking;
    count = argc - 1;
    if (count < 1 || count > MASTERS) {
        fprintf(stderr, "delay: 1 to %d ports of masters, not %d\n", MASTERS, count);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (epoll < 0 || timer < 0)
        die("epoll");
    for (int i = 0; i < count; i++)
        printf("%d%c", listen_for(&masters[i], atoi(argv[i + 1])), i + 1 < count ? ' ' : '\n');
    fflush(stdout);
    watch(0, EPOLLIN, &standard_input, EPOLL_CTL_ADD);
    watch(timer, EPOLLIN, &ticking, EPOLL_CTL_ADD);
    for (;;) {
        int found = epoll_wait(epoll, events, 256, -1);
        if (found < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < found; i++) {
            char *what = events[i].data.ptr;
            if (what == &standard_input) {
                if (!obey())
                    return 0;
            } else if (what == &ticking) {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) > 0)
                    armed = 0;
            } else if (what >= (char *)masters && what < (char *)(masters + MASTERS)) {
                accept_one((struct master *)what);
            } else {
                struct end *end = (struct end *)what;
                if (!end->dead && events[i].events & EPOLLOUT && end->blocked) {
                    end->blocked = 0;
                    watch_end(end);
                    enter_busy(end);
                }
                if (!end->dead && !end->ended && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                    take(end);
                else if (!end->dead && !end->deaf && events[i].events & (EPOLLHUP | EPOLLERR)) {
                    watch(end->fd, 0, end, EPOLL_CTL_DEL);
                    end->deaf = 1;
                }
            }
        }
        deliver_all();
        bury();
    }
}
