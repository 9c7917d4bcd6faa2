/* The floor in C: what a pair costs with nothing but its scripts and hiredis.
 *
 *     floor COMMANDS all|majority
 *
 * COMMANDS is a file of bench/harness/commands.py: the two scripts, and what the lock sends with them. A round is
 * formatted once and written to all masters before a reply is read; "all" then reads the reply of each, "majority"
 * goes on at the q-th and reads the late replies afterwards. Speaks `open`, `pairs` and `quit` of the protocol in
 * bench/contestants/README.md. It reads no JSON but that of the harness: no escapes.
 */

#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MASTERS 16
#define ARGUMENTS 64
#define LONG 512
/* A master that owes so many replies has stopped: sending more would fill the socket's buffer one day. */
#define MOST_OWED 200

typedef struct {
    char *source;
    int count;
    char *arguments[ARGUMENTS]; /* with @LOCK@, @TTL@, @OWNER@ and @TOKEN@ */
} Script;

typedef struct {
    redisContext *link; /* NULL: gone, asked no more */
    long asked, answered;
    int taking; /* part in this pair: the release goes where the acquire went */
} Master;

static Script scripts[2];
static int majority;
static Master masters[MASTERS];
static int master_count;
static char failure[LONG];

static int fail(const char *what, const char *why) {
    snprintf(failure, sizeof failure, "%s: %s", what, why);
    return 0;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the file of commands: each text after its length ---- */

static char *read_text(FILE *file) {
    size_t length;
    if (fscanf(file, "%zu", &length) != 1 || fgetc(file) != '\n') die("commands", "not a file of this kind");
    char *text = malloc(length + 1);
    if (!text || fread(text, 1, length, file) != length) die("commands", "the file is cut short");
    text[length] = 0;
    return text;
}

static void read_commands(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be read");
    for (int s = 0; s < 2; s++) {
        scripts[s].source = read_text(file);
        if (fscanf(file, "%d", &scripts[s].count) != 1 || scripts[s].count > ARGUMENTS)
            die("commands", "too many arguments");
        for (int i = 0; i < scripts[s].count; i++) scripts[s].arguments[i] = read_text(file);
    }
    fclose(file);
}

/* The text with each `mark` in it replaced. */
static char *filled(const char *text, const char *mark, const char *with) {
    size_t size = strlen(text) * (strlen(with) + 1) + 1;
    char *result = calloc(1, size);
    const char *found;
    while ((found = strstr(text, mark))) {
        strncat(result, text, (size_t)(found - text));
        strcat(result, with);
        text = found + strlen(mark);
    }
    return strcat(result, text);
}

/* ---- requests ---- */

static const char *value(const char *line, const char *key) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    const char *found = strstr(line, wanted);
    return found ? found + strlen(wanted) : "";
}

static void string_of(const char *line, const char *key, char *into, size_t size) {
    const char *from = value(line, key);
    const char *end = *from == '"' ? strchr(from + 1, '"') : NULL;
    snprintf(into, size, "%.*s", end ? (int)(end - from - 1) : 0, end ? from + 1 : "");
}

static int open_masters(const char *line) {
    const char *from = value(line, "masters"), *end = strchr(from, ']');
    while (end && (from = strchr(from, '"')) && from < end) {
        char host[128];
        int port = 6379, length = 0;
        if (sscanf(from, "\"redis://%127[^:/\"]%n", host, &length) != 1) return fail("open", "not redis://HOST:PORT");
        sscanf(from + length, ":%d", &port);
        if (master_count == MASTERS) return fail("open", "too many masters");
        redisContext *link = redisConnect(host, port);
        if (!link || link->err) return fail("ConnectionError", link ? link->errstr : "no memory");
        for (int s = 0; s < 2; s++) {
            redisReply *reply = redisCommand(link, "SCRIPT LOAD %s", scripts[s].source);
            if (!reply || reply->type == REDIS_REPLY_ERROR) return fail("SCRIPT LOAD", reply ? reply->str : link->errstr);
            freeReplyObject(reply);
        }
        masters[master_count++].link = link;
        from = strchr(from + 1, '"') + 1;
    }
    return master_count ? 1 : fail("open", "no masters");
}

/* ---- a round ---- */

static void gone(Master *master) {
    redisFree(master->link);
    master->link = NULL;
}

static int granted(redisReply *reply) {
    int yes = reply->type == REDIS_REPLY_ARRAY && reply->elements && reply->element[0]->integer == 1;
    if (!yes) fail("the floor was refused", reply->type == REDIS_REPLY_ERROR ? reply->str : "somebody has the lock");
    freeReplyObject(reply);
    return yes;
}

static int write_all(const char *command, size_t length) {
    for (int i = 0; i < master_count; i++) {
        Master *master = &masters[i];
        if (!master->link || !master->taking) continue;
        int done = 0;
        redisAppendFormattedCommand(master->link, command, length);
        while (!done)
            if (redisBufferWrite(master->link, &done) == REDIS_ERR) {
                if (!majority) return fail("ConnectionError", master->link->errstr);
                gone(master);
                break;
            }
        if (master->link) master->asked++;
    }
    return 1;
}

static int read_each(void) {
    int yes = 1;
    for (int i = 0; i < master_count; i++) {
        void *reply;
        if (redisGetReply(masters[i].link, &reply) == REDIS_ERR) return fail("ConnectionError", masters[i].link->errstr);
        masters[i].answered++;
        yes &= granted(reply); /* go on: what is not read would be taken for the answer to the next round */
    }
    return yes;
}

/* `asked`: which masters' answers count for this round. An older one's reply is not taken for it. */
static int read_majority(const int *asked) {
    struct pollfd polled[MASTERS];
    int votes = 0, waiting;
    while (votes < master_count / 2 + 1) {
        waiting = 0;
        for (int i = 0; i < master_count; i++) {
            polled[i].fd = masters[i].link ? masters[i].link->fd : -1;
            polled[i].events = POLLIN;
            polled[i].revents = 0;
            waiting += asked[i] && masters[i].link && masters[i].answered < masters[i].asked;
        }
        if (!waiting) return fail("ConnectionError", "too few masters answer");
        if (poll(polled, (nfds_t)master_count, -1) < 0) return fail("poll", "failed");
        for (int i = 0; i < master_count; i++) {
            void *reply = NULL;
            if (!polled[i].revents) continue;
            if (redisBufferRead(masters[i].link) == REDIS_ERR) {
                gone(&masters[i]);
                continue;
            }
            while (redisGetReplyFromReader(masters[i].link, &reply) == REDIS_OK && reply) {
                int last = ++masters[i].answered == masters[i].asked;
                if (!granted(reply)) return 0;
                votes += last && asked[i];
            }
        }
    }
    return 1;
}

static int round_of(int count, const char **arguments, const size_t *lengths) {
    char *command;
    int asked[MASTERS] = {0};
    long before[MASTERS];
    for (int i = 0; i < master_count; i++) before[i] = masters[i].asked;
    long long length = redisFormatCommandArgv(&command, count, arguments, lengths);
    int done = write_all(command, (size_t)length);
    redisFreeCommand(command);
    if (!done) return 0;
    if (!majority) return read_each();
    for (int i = 0; i < master_count; i++) asked[i] = masters[i].asked > before[i];
    return read_majority(asked);
}

static void replace(const char **text, const char *with) {
    free((char *)*text);
    *text = with;
}

/* ---- pairs of one lock ---- */

typedef struct {
    const char *arguments[2][ARGUMENTS];
    char owner[96], token[32];
} Lock;

static void lock_of(Lock *lock, const char *name, const char *ttl) {
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < scripts[s].count; i++) {
            char *with_name = filled(scripts[s].arguments[i], "@LOCK@", name);
            lock->arguments[s][i] = filled(with_name, "@TTL@", ttl);
            free(with_name);
            /* Each pair has an owner and a token of its own, as a hold has. */
            if (!strcmp(lock->arguments[s][i], "@OWNER@")) replace(&lock->arguments[s][i], lock->owner);
            if (!strcmp(lock->arguments[s][i], "@TOKEN@")) replace(&lock->arguments[s][i], lock->token);
        }
}

static void dispose(Lock *lock) {
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < scripts[s].count; i++)
            if (lock->arguments[s][i] != lock->owner && lock->arguments[s][i] != lock->token)
                free((char *)lock->arguments[s][i]);
}

static int pair(Lock *lock) {
    static long pairs_so_far;
    size_t lengths[2][ARGUMENTS];
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    snprintf(lock->token, sizeof lock->token, "%lld", wall.tv_sec * 1000000LL + wall.tv_nsec / 1000);
    snprintf(lock->owner, sizeof lock->owner, "bench/%d/MainThread:%032lx", getpid(), ++pairs_so_far);
    for (int i = 0; i < master_count; i++) masters[i].taking = masters[i].asked - masters[i].answered < MOST_OWED;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < scripts[s].count; i++) lengths[s][i] = strlen(lock->arguments[s][i]);
    return round_of(scripts[0].count, lock->arguments[0], lengths[0]) &&
           round_of(scripts[1].count, lock->arguments[1], lengths[1]);
}

static void pairs(const char *line, const char *ttl) {
    char name[LONG];
    Lock lock;
    long wanted = strtol(value(line, "count"), NULL, 10), done = 0;
    string_of(line, "lock", name, sizeof name);
    lock_of(&lock, name, ttl);
    int64_t *took = malloc(sizeof *took * (size_t)(wanted + 1));
    failure[0] = 0;
    for (; done < wanted; done++) {
        int64_t began = now();
        if (!pair(&lock)) break;
        took[done] = now() - began;
    }
    if (done < wanted) {
        printf("{\"ok\": false, \"error\": \"%s\"}\n", failure);
    } else {
        printf("{\"ok\": true, \"errors\": [], \"ns\": [");
        for (long i = 0; i < done; i++) printf("%s%lld", i ? ", " : "", (long long)took[i]);
        printf("]}\n");
    }
    free(took);
    dispose(&lock);
}

int main(int argc, char **argv) {
    char *line = NULL, verb[32], ttl[32] = "";
    size_t size = 0;
    /* Otherwise a write to a master that has just closed the connection ends the process without a word. */
    signal(SIGPIPE, SIG_IGN);
    if (argc != 3) die("usage", "floor COMMANDS all|majority");
    read_commands(argv[1]);
    majority = strcmp(argv[2], "majority") == 0;
    while (getline(&line, &size, stdin) > 0) {
        string_of(line, "do", verb, sizeof verb);
        if (!strcmp(verb, "quit")) break;
        if (!strcmp(verb, "pairs") && master_count) pairs(line, ttl);
        else if (!strcmp(verb, "open")) {
            snprintf(ttl, sizeof ttl, "%ld", strtol(value(line, "ttl_ms"), NULL, 10));
            if (open_masters(line))
                printf("{\"ok\": true, \"name\": \"C, %s\", \"version\": \"hiredis %d.%d.%d\", \"runtime\": \"gcc %s\"}\n",
                       argv[2], HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, __VERSION__);
            else printf("{\"ok\": false, \"error\": \"%s\"}\n", failure);
        } else printf("{\"ok\": false, \"unsupported\": \"it answers pairs only\"}\n");
        fflush(stdout);
    }
    return 0;
}
