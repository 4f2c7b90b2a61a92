/* Which OpenSSL: the one that somebody names, else the one that Python has loaded for its module ssl, else that of the
 * system. A Python that was linked with one of its own shows none of its functions. */
#include "openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library {
    struct library *next;
    struct openssl bound;
    char path[];
};

static const char usual[] = "libssl.so.3";
static struct library *known;                               /* until the process ends */
static pthread_mutex_t binding = PTHREAD_MUTEX_INITIALIZER; /* guards it */

static const struct openssl *find_known(const char *path)
{
    for (const struct library *one = known; one; one = one->next)
        if (!strcmp(one->path, path)) return &one->bound;
    return NULL;
}

/* Those of libcrypto are found through libssl, which needs it. */
static bool bind(struct openssl *bound, void *library, const char *path, char *words, size_t size)
{
#define BIND(function, result, arguments)                                                                  \
    *(void **)&bound->function = dlsym(library, #function);                                                \
    if (!bound->function) {                                                                                \
        snprintf(words, size, "%s has no %s: links need libssl of OpenSSL 3.0 or later", path, #function); \
        return false;                                                                                      \
    }
    OPENSSL_FUNCTIONS(BIND)
#undef BIND
    return true;
}

static void *load(const char *path, char *words, size_t size)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* one that is loaded already is that one */
    if (library) return library;
    if (path == usual)
        snprintf(words, size,
                 "there is no %s on this host, which links over TLS need: install the system's OpenSSL 3 (Debian, "
                 "Ubuntu: apt install libssl3)",
                 usual);
    else
        snprintf(words, size, "the OpenSSL that [link] names cannot be loaded: %s", dlerror());
    return NULL;
}

static const struct openssl *add(const char *path, char *words, size_t size)
{
    void *library = load(path, words, size);
    if (!library) return NULL;
    struct library *one = calloc(1, sizeof *one + strlen(path) + 1);
    if (!one) snprintf(words, size, "there is no memory for OpenSSL");
    if (!one || !bind(&one->bound, library, path, words, size)) {
        free(one);
        dlclose(library);
        return NULL;
    }
    strcpy(one->path, path);
    one->next = known;
    known = one;
    return &one->bound;
}

const struct openssl *openssl_find(const char *path, char *words, size_t size)
{
    if (!*path) path = usual;
    pthread_mutex_lock(&binding);
    const struct openssl *found = find_known(path);
    if (!found) found = add(path, words, size);
    pthread_mutex_unlock(&binding);
    return found;
}
