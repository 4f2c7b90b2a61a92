/* Which OpenSSL: the one that Python has loaded for its module ssl, else that of the system. A Python that was linked
 * with one of its own shows none of its functions. */
#include "openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char name[] = "libssl.so.3";
static struct openssl bound;
static bool is_bound;
static char missing[256];
static pthread_mutex_t binding = PTHREAD_MUTEX_INITIALIZER; /* guards the three above */

/* Those of libcrypto are found through libssl, which needs it. */
static bool bind(void *library)
{
#define BIND(function, result, arguments)                                                                    \
    *(void **)&bound.function = dlsym(library, #function);                                                   \
    if (!bound.function) {                                                                                   \
        snprintf(missing, sizeof missing, "%s has no %s: links need OpenSSL 3.0 or later", name, #function); \
        return false;                                                                                        \
    }
    OPENSSL_FUNCTIONS(BIND)
#undef BIND
    return true;
}

const struct openssl *openssl_find(char *words, size_t size)
{
    pthread_mutex_lock(&binding);
    if (!is_bound) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* one that is loaded already is that one */
        if (library)
            is_bound = bind(library);
        else
            snprintf(missing, sizeof missing,
                     "there is no %s on this host, which links over TLS need: install the system's OpenSSL 3 (Debian, "
                     "Ubuntu: apt install libssl3)",
                     name);
    }
    snprintf(words, size, "%s", is_bound ? "" : missing);
    pthread_mutex_unlock(&binding);
    return is_bound ? &bound : NULL;
}
